#!/usr/bin/env python3
"""Tests the tests of what runs on a card: each mutant has one wrong line in a kernel or in the shim to
NVIDIA's driver, and a test that should fail with it. The kernels run on the CPU (bin/libcuda-on-cpu.so), in a
debug build.

    mutants.py [TEXT]...
With TEXT only mutants whose file, line or test has one of these texts are tried. A table is printed; the exit
status is 1 if fewer than nine tenths die. The checkout is read alone: what is wrong lies in a temporary
folder."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FLAGS = {"CXXFLAGS": "-O0 -fsanitize=alignment"}  # compiled in a few seconds
GO = ["go", "test", "-trimpath", "-vet=off"]

# A file of device/kernels or device, what stands there once, what a mutant has in its place, and a test that
# fails then.
MUTANTS = [
    ("spmm.cuh", "other[u] = indices[min(u, n - 1)]", "other[u] = indices[u]", "TestConformance/spmm$"),
    ("spmm.cuh", "a.row_scale ? a.row_scale[e.row]", "a.row_scale ? a.row_scale[e.result]", "TestHubRow"),
    ("spmm.cuh", "if (a.accumulate && e.begin == e.end", "if (e.begin == e.end", "TestConformance/spmm$"),
    ("spmm.cuh", "if (!share && !is_cut(e))", "if (!share)", "TestHubRow"),
    ("spmm.cuh", "a.self && e.last ?", "a.self ?", "TestHubRow"),
    (
        "spmm.cuh",
        "n < numbers; n += BLOCK)",
        "n < numbers - 1; n += BLOCK)",
        "TestConformance/spmm_with_a_hub",
    ),
    ("spmm.cuh", "range(first + n / width)", "range(first + min(n / width, 2))", "TestSlices$"),
    ("spmm.cuh", "from = blockIdx.x / blocks * slice", "from = 0", "TestSlices$"),
    ("spmm.cuh", "min(slice, a.cols - from)", "slice", "TestSlices$"),
    ("spmm.cuh", "s.from + n % width);", "n % width);", "TestSlices$"),
    ("spmm.cuh", "if (left <= 0)", "if (left < 0)", "TestConformance/spmm$"),
    ("spmm.cuh", "if (32 * i < left)\n\t\t\t\tstore", "store", "TestConformance/spmm$"),
    ("spmm.cuh", "width > 64 ? 4 :", "", "TestConformance/spmm$"),
    ("spmm.cuh", "if (number >= l.s.count)", "if (number > l.s.count)", "TestHubOnACard"),
    ("max.cuh", "smaller = id < arg", "smaller = id > arg", "TestConformance/max"),
    ("max.cuh", "(edge > e.begin && a.edges.indices[edge - 1] == other)", "false", "TestConformance/max"),
    ("max.cuh", "m.complete ? a.first : m.first > 0", "m.first > 0", "TestHubMax$"),
    ("softmax_sum.cuh", "if (u < n) {\n\t\t\t\tv.of", "{\n\t\t\t\tv.of", "TestConformance/softmax_sum$"),
    ("softmax_sum.cuh", "z.x[i] *= scale[i], maximum", "maximum", "TestConformance/softmax_sum$"),
    ("softmax_sum.cuh", "loops && e.last ?", "loops ?", "TestConformance/softmax_sum_with_a_hub"),
    (
        "softmax_sum.cuh",
        "if (e.whole)\n\t\tload_either",
        "load_either",
        "TestConformance/softmax_sum_with_a_hub",
    ),
    ("attend.cuh", ": row;\n\t\t__syncwarp();", ": row;", "TestEdgeMaskOfASlice"),
    ("attend.cuh", "number - since", "number", "TestConformance/attention$"),
    ("attend.cuh", "layer_head = (int)a.mask.first + head", "layer_head = head", "TestHeadsHaveTheSameBits"),
    (
        "attend.cuh",
        "state.scale = exponential(state.maximum - top)",
        "state.scale = 1",
        "TestConformance/attention$",
    ),
    ("attend.cuh", "stored <= WEFT_SEGMENT", "stored <= WEFT_LONG", "TestConformance/attention_with_a_hub"),
    ("attend.cuh", "take_slab(slab + i);", "take_slab(slab);", "TestConformance/attention$"),
    ("attend_back.cuh", "i * ATTEND_COLUMNS + w.column(j)", "w.column(j)", "TestConformance/attention$"),
    ("attend.cuh", "(a.loops && s.after == 0 ?", "(a.loops ?", "TestHubAttention$"),
    ("attend_back.cuh", "W::SLABS][4]) {\n\t__syncwarp();", "W::SLABS][4]) {", "TestEdgeMaskOfASlice"),
    ("attend_back.cuh", "*to = d + (w.adds ? *to : 0.0f)", "*to = d", "TestConformance/attention$"),
    ("attend_back.cuh", "t > 0 ? alpha : -alpha", "alpha", "TestConformance/attention$"),
    (
        "attend_v2.cuh",
        "float sum = slab ? (float)to[k][place] : 0.0f",
        "float sum = 0",
        "TestConformance/attention$",
    ),
    ("attend_v2.cuh", "= da[j];\n\t\t__syncthreads();", "= da[j];", "TestEdgeMaskOfASlice"),
    ("attend_v2.cuh", "h * lanes + l]", "h + l]", "TestConformance/attention$"),
    ("attend.cuh", "number >= stored)", "number > stored)", "TestConformance/attention$"),
    (
        "attend_dot.cuh",
        "w.coef, a.target, a.key)",
        "w.coef, a.target, a.source)",
        "TestConformance/attention$",
    ),
    ("attend_edges.cuh", "own.g_dot_out) * rise;", "own.g_dot_out);", "TestConformance/attention$"),
    (
        "attend_edges.cuh",
        "own.x[j] > 0 ? c : c * a.slope",
        "own.x[j] > 0 ? c : c",
        "TestConformance/attention$",
    ),
    (
        "product.cuh",
        "ws[b], w.by_k);\n\t\t\t__syncthreads();\n\t\t\tif",
        "ws[b], w.by_k);\n\t\t\tif",
        "TestConformance/product",
    ),
    (
        "product.cuh",
        (
            "k += K, b ^= 1) {\n"
            "\t\t\txp.keep(xs[b], x.by_k), wp.keep(ws[b], w.by_k);\n"
            "\t\t\t__syncthreads();\n"
            "\t\t\tif"
        ),
        "k += K) {\n\t\t\txp.keep(xs[b], x.by_k), wp.keep(ws[b], w.by_k);\n\t\t\t__syncthreads();\n\t\t\tif",
        "TestConformance/product",
    ),
    (
        "product.cuh",
        "wait_for_copies(STEPS - 2);",
        "wait_for_copies(STEPS - 1);",
        "TestConformanceBFloat16/product",
    ),
    (
        "product.cuh",
        "// of all steps but the next\n\t\t\t__syncthreads();",
        "",
        "TestConformanceBFloat16/product",
    ),
    (
        "product.cuh",
        "f.stride % 8 == 0 && (uint64_t)f.p % 16 == 0",
        "f.stride % 8 == 0",
        "TestConformanceBFloat16/product",
    ),
    ("product.cuh", "f.stride % 8 == 0 && (uint64_t)f.p", "(uint64_t)f.p", "TestConformanceBFloat16/product"),
    ("product.cuh", "p, n > 0)", "p, true)", "TestConformanceBFloat16/product"),
    ("product.cuh", "tile * 16 * (K / 8)", "0", "TestConformanceBFloat16/product"),
    ("product.cuh", "half * 16 * (S / 8)", "0", "TestConformanceBFloat16/product"),
    ("product.cuh", "(f.by_k ? left : lines) -= K", "lines -= K", "TestConformanceBFloat16/product"),
    ("product.cuh", "piece ^ l % 8", "piece", "TestConformanceBFloat16/product"),
    ("product.cuh", "piece ^ l / 2 % 4", "piece", "TestConformanceBFloat16/product"),
    ("product.cuh", "mma_tf32(d, upper, low[o], d);", "", "TestTF32$"),
    ("product.cuh", "fminf(fmaxf(x, -most), most)", "x", "TestTF32Infinite$"),
    ("product.cuh", "e + t + q / 2 * 4, row", "e + t + q % 2 * 4, row", "TestTF32$"),
    ("product.cuh", "a.transposed ? a.in : a.out", "a.transposed ? a.out : a.in", "TestConformance/product"),
    (
        "product.cuh",
        "n >= 4)\n\t\treturn *(const float4 *)p",
        "true)\n\t\treturn *(const float4 *)p",
        "TestConformance/transposed_product",
    ),
    (
        "product.cuh",
        "stride % 4 == 0 && (uint64_t)p % (type == WEFT_FLOAT32 ? 16 : 8) == 0",
        "stride % 4 == 0",
        "TestConformance/product",
    ),
    ("product.cuh", "first ? e[q] : to[q] + e[q]", "e[q]", "TestConformance/transposed_product"),
    (
        "sums.cuh",
        "[p][threadIdx.x];\n\t\t__syncthreads();",
        "[p][threadIdx.x];",
        "TestConformance/column_sums",
    ),
    ("sums.cuh", "tile_sums<T, 2, 2>", "tile_sums<T, 1, 2>", "TestSameBitsOnACard"),
    (
        "sums.cuh",
        "int64_t t = 1; t < l.a.count; t++",
        "int64_t t = l.a.count - 1; t > 0; t--",
        "TestSameBitsOnACard",
    ),
    ("sums.cuh", "n > 2 ? n - 1 : 1", "n", "TestConformance/batch_statistics"),
    ("sums.cuh", "(l.a.added ? l.a.added[i] : 0)", "0", "TestConformance/running_statistics"),
    ("sums.cuh", "l.a.variance[i] + l.a.epsilon", "l.a.variance[i]", "TestConformance/running_statistics"),
    ("sums.cuh", "(float)(sum * l.a.each)", "(float)sum", "TestConformance/batch_statistics"),
    (
        "sums.cuh",
        "s += __shfl_xor_sync(ALL, s, 8)",
        "s += __shfl_xor_sync(ALL, s, 4)",
        "TestConformance/sum_of_squares",
    ),
    ("sums.cuh", "extend = m.complete && !a.first", "extend = m.complete", "TestHubAttention$"),
    (
        "sums.cuh",
        "float sum = 0;\n\tUNROLL_BY(8)",
        "float sum = 0;\n\tif (a.segments.carried == 0) UNROLL_BY(8)",
        "TestHubOnACard",
    ),
    ("warp.cuh", "return s.carried + number;", "return number;", "TestHubOnACard"),
    ("warp.cuh", "s.of[number - 1].row != s.of[number].row", "true", "TestHubRow"),
    (
        "norm.cuh",
        "if (at.row + r >= last)\n\t\t\treturn;\n\t\teach(x[r]",
        "each(x[r]",
        "TestConformance/batch_norm",
    ),
    ("norm.cuh", "__syncthreads();\n\t\tdouble sum = 0", "double sum = 0", "TestConformance/layer_norm"),
    ("norm.cuh", "vertex_of(m, row), batch + b,", "vertex_of(m, row), batch,", "TestConformance/layer_norm"),
    ("norm.cuh", "a.cols, a.mask.first % BATCH)", "a.cols, 0)", "TestSameBitsOnACard"),
    ("random.cuh", "c1 = batch, c2 = lane", "c1 = lane, c2 = batch", "TestSameBitsOnACard"),
    ("random.cuh", "* BATCH + lane - m.first", "* BATCH + lane", "TestMaskOfASlice"),
    ("loss.cuh", "= x;\n\t__syncthreads();", "= x;", "TestConformance/cross-entropy"),
    ("loss.cuh", "there = y[u] == y[u]", "there = true", "TestConformance/binary_cross-entropy"),
    ("loss.cuh", "k + u * BLOCK, n - 1)", "k + u * BLOCK, n)", "TestConformance/binary_cross-entropy"),
    ("rows.cuh", "* a.z_cols + a.from_z", "* a.x_cols + a.from_z", "TestConformance/columns"),
    (
        "rows.cuh",
        "if (e.k > begin && indices[e.k - 1] == column)",
        "if (false)",
        "TestConformance/dense_form",
    ),
    ("pointwise.cuh", "p[(c + i) % cols]", "p[c + i]", "TestConformance/finish"),
    ("pointwise.cuh", "n(min(last * cols - k, (int64_t)N))", "n(N)", "TestConformance/fill"),
    ("pointwise.cuh", "fabsf(x) > 9 ? distribution(x) :", "", "TestGELU"),
    (
        "pointwise.cuh",
        "at.load(x, a.in, at.k * a.heads + h)",
        "at.load(x, a.in, at.k + h)",
        "TestConformance/head_mean",
    ),
    ("pairs.cuh", "*t = a.x + p[2] * a.cols, *w", "*t = a.x + p[1] * a.cols, *w", "TestConformance/pairs"),
    ("pairs.cuh", "p[2 - a.ends[e] % 2]", "p[1 + a.ends[e] % 2]", "TestConformance/pairs"),
    ("pairs.cuh", "a.dw[p[0] * a.cols + c] +=", "a.dw[c] +=", "TestConformance/pairs"),
    ("pairs.cuh", "equal += x == score", "equal += x >= score", "TestConformance/above"),
    (
        "pairs.cuh",
        "a.tiles[(2 * t + 1) * a.cols + c] =",
        "a.tiles[2 * t * a.cols + c] =",
        "TestConformance/above",
    ),
    ("expression.cuh", "c = 0, of += o.stride;", "c = 0;", "TestConformance/pointwise"),
    ("expression.cuh", "o.columns ? o.columns[c] : c", "c", "TestConformance/pointwise"),
    (
        "expression.cuh",
        "const packed<float, N> xs = of(q->a), ys = of(q->b)",
        "const packed<float, N> xs = of(q->a), ys = of(q->a)",
        "TestConformance/pointwise",
    ),
    ("expression.cuh", "a.weights[c] * x((int)c)", "x((int)c)", "TestConformance/mapped_columns"),
    ("groups.cuh", "log ? g - full_exp(z) * total", "log ? g - z * total", "TestConformance/groups"),
    ("groups.cuh", "x_next = a.x_transposed ? a.rows : 1", "x_next = 1", "TestConformance/row_product"),
    ("coding.cuh", "a.ids ? a.ids[row] : row", "row", "TestConformance/coding"),
    ("heads.cuh", "__syncthreads();\n", "", "TestConformance/head_dot"),
    ("heads.cuh", "(by_row ? k : k % a.heads)", "(by_row ? k : 0)", "TestConformance/head_dot"),
    ("step.cuh", "at.store(a.v, v), ", "", "TestConformance/adam"),
    ("step.cuh", "a.momentum && !a.first", "a.momentum", "TestConformance/sgd"),
    (
        "warp.cuh",
        "type == WEFT_FLOAT32 ? ((const float *)p)[k] :",
        "true ? ((const float *)p)[k] :",
        "TestConformanceBFloat16/spmm$",
    ),
    ("warp.cuh", "b + 0x7fff + (b >> 16 & 1)", "b", "TestSameBitsOnACard"),
    ("warp.cuh", "n >= N && (uint64_t)p % sizeof(packed<T, N>) == 0", "n >= N", "TestConformance/finish"),
    ("driver.c", "if (!status)\n\t\tstatus = d->cuDeviceGetName", "status = d->cuDeviceGetName", "TestFails"),
    (
        "driver.c",
        "return status ? status : d->cuDeviceGetCount(cards)",
        "return d->cuDeviceGetCount(cards)",
        "TestFails",
    ),
    ("driver.c", "status ? status : d->call", "d->call", "TestFails"),
    ("driver.c", "int status = d->cuCtxSetCurrent(d->context); \\", "int status = 0; \\", "TestCards"),
    ("driver.c", "d->cuDeviceGetAttribute(minor,", "d->cuDeviceGetAttribute(major,", "TestLaunch"),
    ("driver.c", "if (!d->context)\n\t\treturn 0;", "", "TestFails"),
    (
        "driver.c",
        "first = first ? first : status;\n\tstatus = d->cuDevice",
        "status = d->cuDevice",
        "TestFails",
    ),
    (
        "driver.c",
        "(d->device);\n\treturn first ? first : status",
        "(d->device);\n\treturn first",
        "TestFails",
    ),
    ("driver.c", "k ? &g->nodes[k - 1] : NULL, k ? 1 : 0", "NULL, 0", "TestGraphs$"),
    ("driver.c", "void *parameters[] = {args + kernels[k].at}", "void *parameters[] = {args}", "TestGraphs$"),
    ("driver.c", "void *parameters[] = {args + k->at}", "void *parameters[] = {args}", "TestGraphs$"),
    ("driver.c", "g->nodes[changed[i]], &node", "g->nodes[i], &node", "TestGraphs$"),
    (
        "driver.c",
        "first = first ? first : status;\n\tstatus = g->graph",
        "status = g->graph",
        "TestWithoutGraphs",
    ),
    (
        "driver.c",
        "(weft_graph){0};\n\treturn first ? first : status",
        "(weft_graph){0};\n\treturn first",
        "TestWithoutGraphs",
    ),
    ("driver.c", "{\n\tIN_CONTEXT(cuStreamWaitEvent(stream, event, 0));\n}", "{ return 0; }", "TestBeside"),
    ("driver.c", "{ IN_CONTEXT(cuEventSynchronize(event)); }", "{ return 0; }", "TestBeside"),
    (
        "driver.c",
        "return status || !d->reads_pageable ? status :",
        "return status ? status : 0 ? 0 :",
        "TestFails",
    ),
    ("driver.c", "{ IN_CONTEXT(cuStreamSynchronize(stream)); }", "{ return 0; }", "TestFails"),
    ("driver.c", "*name = NULL", '*name = ""', "TestFails"),
    ("nvrtc.c", "if (!status)\n\t\tstatus = GetCUBINSize", "status = GetCUBINSize", "TestCode"),
]


def source(name):
    return (ROOT / "device" / ("kernels" if name.endswith(".cuh") else "") / name).read_text()


def build(folder, name="", wrong=""):
    """Compiles what tests load, and the tests of the shim, with one file that is wrong; without it, what is
    right."""
    sources, overlay = folder / "kernels", folder / "overlay.json"
    shutil.copytree(ROOT / "device/kernels", sources, dirs_exist_ok=True)
    overlay.write_text(
        json.dumps({"Replace": {str(ROOT / "device" / name): str(folder / name)} if wrong else {}})
    )
    if wrong:
        (sources / name if name.endswith(".cuh") else folder / name).write_text(wrong)
    if not name.endswith(".c"):
        subprocess.run(
            [ROOT / "device/oncpu/build", folder / "libcuda.so", sources], env=os.environ | FLAGS, check=True
        )
    if not name.endswith(".cuh"):
        subprocess.run(
            [*GO, "-overlay", overlay, "-c", "-o", folder / "device.test", "./device"], cwd=ROOT, check=True
        )


def fails(folder, tests, name, test, limit=None):
    """Whether a test fails with what was built in a folder, or runs longer than a limit in seconds."""
    package = "kernel" if name.endswith(".cuh") else "device"
    env = {"WEFT_DEVICE": "cuda", "WEFT_CUDA": str(folder / "libcuda.so"), "ON_CPU_MEMORY": str(64 << 30)}
    command = [(tests if package == "kernel" else folder) / f"{package}.test", "-test.run", f"^{test}"]
    try:
        run = subprocess.run(
            command, cwd=ROOT / package, env=os.environ | env, timeout=limit, capture_output=True, text=True
        )
    except subprocess.TimeoutExpired:
        return True
    if "no tests to run" in run.stdout + run.stderr:
        sys.exit(f"{test}: there is no such test")
    return run.returncode != 0


def main():
    mutants = [
        m for m in MUTANTS if not sys.argv[1:] or any(text in part for text in sys.argv[1:] for part in m)
    ]
    died, took = 0, {}
    with tempfile.TemporaryDirectory() as folder:
        right, wrong = Path(folder, "right"), Path(folder, "wrong")
        wrong.mkdir()
        build(right)
        subprocess.run(
            [*GO, "-tags", "weftdebug", "-c", "-o", right / "kernel.test", "./kernel"], cwd=ROOT, check=True
        )
        for name, text, other, test in mutants:
            if source(name).count(text) != 1:
                sys.exit(f"{name} has {source(name).count(text)} times, not once: {text}")
            if test not in took:
                began = time.monotonic()
                if fails(right, right, name, test):
                    sys.exit(f"{test} fails where nothing is wrong")
                took[test] = time.monotonic() - began
            build(wrong, name, source(name).replace(text, other))
            dies = fails(wrong, right, name, test, 60 + 20 * took[test])
            died += dies
            print(
                f"{'dies' if dies else 'LIVES':6}{name:16}{test:40}{' '.join(text.split())[:60]}", flush=True
            )
    print(f"{died} of {len(mutants)} mutants died")
    sys.exit(10 * died < 9 * len(mutants))


if __name__ == "__main__":
    main()
