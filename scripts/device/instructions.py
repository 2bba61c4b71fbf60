#!/usr/bin/env python3
"""Counts the instructions of the interpreter of message functions (device/kernels/expression.cuh) for a card,
and tells the time of the element-wise parts of EdgeConv, GENConv and MeshGraphNet on an H100 by them, beside
that of their bytes. Nothing is measured.

    instructions.py CUBIN        # sm_90's of check-cuda FOLDER; NVDISASM: the disassembler of CUDA, or its
                                 name

Of a sum of neighbours (spmm.cuh) it counts those of a round of edges, beside the bytes of their rows.

Of products by tensor cores (product.cuh) it counts what a warp issues in a step, beside the time of the
tensor cores and of the bytes of a layer as wide as the kernel's columns.

A thread has four numbers of the result. Of an operation the longest way from the head of the loop over
instructions back to it is counted, without the calls for numbers of which a division or a root is slow; of an
input and a result the longest way that moves vectors. A kernel of vectors that stores words is refused.
Standard library only."""

import functools
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KERNEL, VECTOR = "pointwise_float32", 4

# An H100 SXM, by its data sheet: warps' instructions a second (132 × 4 schedulers, 1.98 GHz), accesses of 16
# bytes a thread to shared memory that a warp makes in a second (132 × 128 bytes a clock), and bytes of
# memory.
ISSUED, SHARED, MEMORY = 132 * 4 * 1.98e9, 132 * 1.98e9 / 4, 3.35e12
TENSOR = 989.4e12 / (2 * 16 * 8 * 16)  # mma.m16n8k16 of bfloat16s in a second, or mma.m16n8k8 of TF32 numbers
GATHERS = ["spmm_float32_vector", "spmm_bfloat16_vector"]
PRODUCTS = [f"{name}_bfloat16{columns}" for name in ("product", "weight") for columns in ("", "_64", "_32")]
PRODUCTS += [f"{name}_float32_tf32{columns}" for name in ("product", "weight") for columns in ("", "_64")]

# The expressions over edges that weft makes of the modules, forward and backward: inputs, results, and
# operations. GENConv reads features of edges, without which it has none.
MODULES = {
    "EdgeConv": [(2, 1, "add relu"), (3, 2, "constant add le where")],
    "GENConv": [
        (2, 1, "sub exp"),
        (2, 1, "sub exp mul"),
        (3, 2, "sub exp mul neg"),
        (3, 2, "sub exp mul mul mul add neg"),
    ],
    "MeshGraphNet": [
        (3, 1, "add add silu"),
        (2, 1, "add"),
        (4, 3, "constant add add sigmoid sub mul add mul mul"),
        (2, 1, "add"),
    ],
}


def operations() -> list[str]:
    text = (ROOT / "kernel/native/expression_args.h").read_text()
    table = text[text.index("#define WEFT_OPERATIONS") : text.index("enum weft_operation")]
    return [
        name.removeprefix("logical_") for name in re.findall(r"^\t(?:VECTOR|SINGLE)\((\w+),", table, re.M)
    ]


def narrow(text: str) -> list[str]:
    """The kernels of vectors (kernel/shapes.go) that store words and no vector of 16 or 8 bytes: they need up
    to four times as many stores. attend_back_target has one number for each head."""
    body = re.split(r"^\.text\.([\w$]+):$", text, flags=re.M)
    kernels = {
        name: set(re.findall(r"\bSTG\.E\S*", code))
        for name, code in zip(body[1::2], body[2::2])
        if "_vector" in name
    }
    words = [
        name
        for name, stores in kernels.items()
        if "STG.E" in stores and not stores & {"STG.E.128", "STG.E.64"}
    ]
    return [name for name in words if not re.match("attend_back_target_(float32|bfloat16)", name)]


class Code:
    """The instructions of a kernel."""

    def __init__(self, text: str, kernel: str = KERNEL):
        body = re.split(r"^\.text\.[\w$]+:$", text, flags=re.M)
        names = re.findall(r"^\.text\.([\w$]+):$", text, re.M)
        body = dict(zip(names, body[1:]))[kernel]
        self.lines, self.labels = [], {}
        for line in body.splitlines():
            if m := re.match(r"(\.L_x_\d+):", line):
                self.labels[m[1]] = len(self.lines)
            elif m := re.match(r"\s+/\*[0-9a-f]+\*/\s+(.*?)\s*;?$", line):
                self.lines.append(m[1])
            elif line.startswith("$__internal"):
                break  # what is called
        self.loops = sorted(
            (target, k) for k in range(len(self.lines)) for target in self.targets(k) if target <= k
        )

    def targets(self, k: int) -> list[int]:
        """Where a branch goes."""
        name = self.name(k)
        if name not in ("BRA", "BRX"):
            return []
        return [
            self.labels[label] for label in re.findall(r"\.L_x_\d+", self.lines[k]) if label in self.labels
        ]

    def name(self, k: int) -> str:
        """The instruction's name, without its condition and its kind."""
        return re.sub(r"^@!?U?P[\dT]\s+", "", self.lines[k]).split()[0].rstrip(";").split(".")[0]

    def longest(self, first: int, last: int, operation: int | None = None, vectors: str = "") -> int | None:
        """The most instructions from one to another. operation: which one the dispatch is of; vectors: the
        instruction that moves vectors alone on the way."""
        register = (
            re.match(r"ISETP\S+ P\d, PT, (R\d+), 0x", self.lines[self.dispatch(first)])[1]
            if operation is not None
            else ""
        )

        @functools.cache
        def way(k: int, known: frozenset) -> int | None:
            count, values = 0, dict(known)  # of predicates, and whether the register still has the operation
            while True:
                line, name = self.lines[k], self.name(k)
                if name in ("CALL", "EXIT", "RET") and not line.startswith("@"):
                    return None
                if (
                    vectors
                    and re.match(rf"{vectors}\.E(?!\.128)", re.sub(r"^@!?P\d\s+", "", line))
                    and not line.startswith("@")
                ):
                    return None
                count += 1
                if vectors and f"{vectors}.E.128" in line:
                    values["moved"] = True
                if k == last:
                    return count if not vectors or "moved" in values else None
                if name == "BRX":
                    base = int(self.base(k, register), 16)
                    listed = self.targets(k)
                    return plus(
                        count,
                        way(
                            listed[min((operation - base) % 2**32, len(listed) - 1)],
                            frozenset(values.items()),
                        ),
                    )
                if name == "BRA":
                    (target,) = self.targets(k)
                    condition = re.match(r"@(!?)(P\d)\s", line)
                    also = re.search(r"BRA !?P\d,", line)
                    taken = None if condition or also else True
                    if condition and not also and condition[2] in values:
                        taken = values[condition[2]] != bool(condition[1])
                    ways = []
                    if taken is not False and k < target <= last:
                        ways.append(way(target, frozenset(values.items())))
                    if taken is not True:
                        ways.append(way(k + 1, frozenset(values.items())))
                    found = [n for n in ways if n is not None]
                    return count + max(found) if found else None
                changed = re.match(r"(?:@!?P\d\s+)?\S+\s+([^;]*)", line)
                registers = re.findall(r"U?[PR]\d+", changed[1].split(",")[0]) if changed else []
                compares = re.match(
                    r"ISETP\.(GT|NE|GE|LE|LT|EQ)(\.U32)?\.AND (P\d), PT, (R\d+), (-?0x[0-9a-f]+), PT", line
                )
                for one in registers:
                    values.pop(one, None)
                if register in registers and name != "LDG":
                    values["gone"] = True
                if compares and compares[4] == register and "gone" not in values:
                    x, y = operation, int(compares[5], 16)
                    values[compares[3]] = {
                        "GT": x > y,
                        "NE": x != y,
                        "GE": x >= y,
                        "LE": x <= y,
                        "LT": x < y,
                        "EQ": x == y,
                    }[compares[1]]
                k += 1

        sys.setrecursionlimit(100_000)
        return way(first, frozenset())

    def step(self) -> list[int]:
        """The instructions of a step of products that stores no result: of the ways through the loop those
        that multiply most matrices, of these those that bring most numbers at once, and of these the
        shortest."""
        loops = [span for span in self.loops if any(self.name(k) == "HMMA" for k in range(span[0], span[1]))]
        first, last = min(loops, key=lambda span: span[1] - span[0])
        ways: dict[int, tuple[tuple[int, int, int], list[int]]] = {last: ((0, 0, -1), [last])}
        for k in range(last - 1, first - 1, -1):
            line, name = self.lines[k], self.name(k)
            following = [k + 1]
            if name == "BRA" and "BRA.DIV" not in line:
                goes_on = line.startswith("@") or re.search(r"BRA\S* !?U?P\d,", line)
                following = [*self.targets(k), *(following if goes_on else [])]
            known = [ways[to] for to in following if k < to and to in ways]
            if not known or (name == "EXIT" and not line.startswith("@")):
                continue
            (multiplied, brought, length), way = max(known, key=lambda entry: entry[0])
            multiplied += name == "HMMA"
            if name in ("STG", "FADD", "DADD"):  # of results
                brought -= 100
            elif name in ("LDGSTS", "STS") or re.search(r"LDG\.E\.(64|128)", line):
                brought += 3 if name == "LDGSTS" else 1
            ways[k] = (multiplied, brought, length - 1), [k, *way]
        return ways[first][1]

    def past(self, first: int, last: int) -> int:
        """How many instructions a loop issues that leaves out its body by its first branch."""
        branch = next(k for k in range(first, last) if self.name(k) == "BRA")
        (target,) = self.targets(branch)
        return branch - first + 1 + last - target + 1

    def dispatch(self, first: int) -> int:
        """The first comparison of the operation with a number behind the head of the loop."""
        return next(
            k for k in range(first, len(self.lines)) if re.match(r"ISETP\S+ P\d, PT, R\d+, 0x", self.lines[k])
        )

    def base(self, k: int, register: str) -> str:
        """The first operation of a table of branches: what is subtracted from the operation."""
        for line in self.lines[k - 1 : k - 8 : -1]:
            if m := re.match(rf"VIMNMX.U32 R\d+, {register}(?:\.reuse)?, 0x", line):
                return "0x0"
            if m := re.match(rf"VIADDMNMX.U32 R\d+, {register}(?:\.reuse)?, (R\d+|-?0x[0-9a-f]+), 0x", line):
                less = m[1] if not m[1].startswith("R") else self.moved(k, m[1])
                return hex(-int(less, 16) % 2**32)
            if m := re.match(rf"(?:IADD3|VIADD) R\d+, {register}(?:\.reuse)?, (-?0x[0-9a-f]+)", line):
                return hex(-int(m[1], 16) % 2**32)
        raise SystemExit(f"instructions: no base of the branches at {self.lines[k]}")

    def moved(self, k: int, register: str) -> str:
        """The number that a register was given before."""
        for line in self.lines[k - 1 : k - 12 : -1]:
            if m := re.match(rf"(?:MOV|IMAD\.MOV\.U32) {register}, (?:RZ, RZ, )?(-?0x[0-9a-f]+)", line):
                return m[1]
        raise SystemExit(f"instructions: {register} is no number at {self.lines[k]}")


def plus(count: int, rest: int | None) -> int | None:
    return None if rest is None else count + rest


class Counts:
    """What a thread of the kernel issues."""

    def __init__(self, text: str):
        code = Code(text)
        dispatched = next(
            (head, back) for head, back in code.loops if any(code.name(k) == "BRX" for k in range(head, back))
        )
        inputs = next(span for span in code.loops if span[1] < dispatched[0])
        stores = [
            span
            for span in code.loops
            if span[0] > dispatched[1] and any("STG.E.128" in code.lines[k] for k in range(*span))
        ]
        results, again = stores  # of each result one stores it, and the other goes past
        self.begin = (
            (code.longest(0, inputs[0] - 1) or 0) + dispatched[0] - inputs[1] + results[0] - dispatched[1]
        )
        self.input = code.longest(*inputs, vectors="LDG") or 0
        self.result = (code.longest(*results, vectors="STG") or 0) + code.past(*again)
        self.operation = {name: code.longest(*dispatched, operation=k) for k, name in enumerate(operations())}

    def counted(self, inputs: int, results: int, words: str) -> tuple[int, int]:
        """Instructions of a thread, and its accesses of 16 bytes to shared memory."""
        names = words.split()
        issued = (
            self.begin
            + inputs * self.input
            + results * self.result
            + sum(self.operation[name] for name in names)
        )
        return issued, inputs + results + 4 * len(names)


def products(text: str, kernel: str) -> tuple[int, int, float]:
    """What a warp issues in a step of products, how many matrices that multiplies, and its accesses of 16
    bytes a lane to shared memory. Of the two ways to read a matrix one is taken."""
    code = Code(text, kernel)
    step = code.step()
    count = {name: 0.0 for name in ("HMMA", "LDSM", "LDGSTS", "STS", "LDS")}
    for k in step:
        if code.name(k) in count and not code.lines[k].startswith("@!PT"):
            words = re.search(r"\.(64|128)\b", code.lines[k]) if code.name(k) in ("STS", "LDS") else None
            single = code.name(k) in ("STS", "LDS") and not words
            either = code.name(k) == "LDSM" and code.lines[k].startswith("@")
            count[code.name(k)] += 0.25 if single else 0.5 if either or (words and words[1] == "64") else 1
    multiplied = count.pop("HMMA")
    return len(step), int(multiplied), sum(count.values())


def gathered(text: str, kernel: str) -> tuple[int, int]:
    """What a thread issues in a round of a sum of neighbours, and of how many edges that loads a vector."""
    code = Code(text, kernel)
    loads = {span: sum("LDG.E.128" in line for line in code.lines[span[0] : span[1]]) for span in code.loops}
    head, back = next(span for span, count in loads.items() if count)
    return code.longest(head, back) or 0, loads[head, back]


def print_gathered(text: str) -> None:
    print("\n| kernel | instructions a round | edges | instructions ÷ bytes |\n|---|---|---|---|")
    for kernel in GATHERS:
        issued, edges = gathered(text, kernel)
        print(f"| {kernel} | {issued} | {edges} | {issued / ISSUED / (edges * 32 * 16 / MEMORY):.2f} |")


def print_products(text: str) -> None:
    print(
        "\n"
        "| kernel | layer | instructions an mma | tensor cores ÷ bytes | instructions ÷ bytes | shared "
        "memory ÷ bytes |"
    )
    print("|---|---|---|---|---|---|")
    for kernel in PRODUCTS:
        issued, multiplied, accesses = products(text, kernel)
        columns = re.search(r"_(\d+)$", kernel)
        width = int(columns[1]) if columns else 128
        size, depth, times = (
            (4, 8, 3) if "tf32" in kernel else (2, 16, 1)
        )  # a number's bytes, an mma's depth, and how often
        memory = (
            2 * size * width / MEMORY / (times * width * width / (16 * 8 * depth))
        )  # seconds of an mma's part of a row
        parts = (
            1 / TENSOR / memory,
            issued / multiplied / ISSUED / memory,
            accesses / multiplied / SHARED / memory,
        )
        print(
            f"| {kernel} | {width} to {width} | {issued / multiplied:.1f} | {parts[0]:.2f} | {parts[1]:.2f} "
            f"| {parts[2]:.2f} |"
        )


def main() -> None:
    disassembler = os.environ.get("NVDISASM", "nvdisasm")
    text = subprocess.run(
        [disassembler, "-c", sys.argv[1]], check=True, capture_output=True, text=True
    ).stdout
    if kernels := narrow(text):
        sys.exit(f"instructions: {', '.join(kernels)}: vectors are stored word by word")
    counts = Counts(text)
    print(
        f"{KERNEL}, instructions of a thread with {VECTOR} numbers: {counts.begin} of its own, "
        f"{counts.input} an input, {counts.result} a result"
    )
    print("an operation:", ", ".join(f"{name} {n}" for name, n in counts.operation.items()))
    print(
        "\n"
        "| module | expression | instructions an element | time of instructions ÷ bytes | of shared memory ÷ "
        "bytes |\n"
        "|---|---|---|---|---|"
    )
    for module, expressions in MODULES.items():
        for inputs, results, words in expressions:
            issued, accesses = counts.counted(inputs, results, words)
            memory = 4 * (inputs + results) * 32 * VECTOR / MEMORY  # seconds of a warp's numbers
            parts = issued / VECTOR, issued / ISSUED / memory, accesses / SHARED / memory
            print(
                f"| {module} | {words.replace(' ', ', ')} | {parts[0]:.0f} | {parts[1]:.2f} | {parts[2]:.2f} "
                "|"
            )
    print_gathered(text)
    print_products(text)


if __name__ == "__main__":
    main()
