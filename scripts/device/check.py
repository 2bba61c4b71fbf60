#!/usr/bin/env python3
"""Tries weft on a card, in two calls of ten minutes, on a machine where nothing can be built or fetched: what
`make device-kit` has put into a folder is all it needs. What PyTorch and PyG do on that card is measured
beside it, where this Python has them.

    check.py --kit FOLDER --out FOLDER [--call 1|2] [--quick] [--only STEP,STEP] [--limit SECONDS]

Each figure goes to device.json in --out as soon as it is known, beside those of other steps there; a table is
printed last. A step has a limit in seconds, and what fails in it stops nothing else. A call is some of the
steps, the first ones of which tell most, and ends within 570 seconds. --quick runs the same steps on graphs
of some vertices, for bin/libcuda-on-cpu.so in WEFT_CUDA, which needs no card; ten times the seconds are for
machines that are slow. The exit status is 1 if something failed. Standard library only."""

import argparse
import contextlib
import ctypes
import concurrent.futures
import functools
import json
import lzma
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "peers"), str(HERE.parent / "papers")]
import card
from card import Failed, Skipped
from models import MODELS

FEATURES, CLASSES = "128", "16"
NOISE = ("--features", FEATURES, "--classes", CLASSES)
# The eight models whose curves are held against the CPU's.
EIGHT = {
    "gcn": ("--model", "gcn"),
    "sage": ("--model", "sage", "--norm", "batch"),
    "gat": ("--model", "gat", "--heads", "4"),
    "gin": ("--model", "gin"),
    "gcnii": ("--model", "gcnii", "--layers", "4"),
    "rgcn": ("--model", "rgcn"),
    "mlp": ("--model", "mlp", "--norm", "layer"),
    "sage, graph=4": ("--model", "sage", "--norm", "batch", "--parallel", "graph=4"),
}
DRIVER = "libcuda.so.1"
FEW = "^TestConformance$/^(head scale|cross-entropy)$"
# The kinds of kernels that compute-sanitizer goes through, as far as the time reaches.
SANITIZED = (
    "cross-entropy", "spmm", "attention", "product", "batch norm", "groups", "sums of rows", "head scale",
    "layer norm", "rows",
)  # fmt: skip
CLOSE, ALIKE = (
    1e-5,
    1e-3,
)  # relative differences of losses in float32: from the CPU's, and from PyG's of three epochs


class Check:
    def __init__(self, options, work: Path):
        self.options, self.quick, self.work = options, options.quick, work
        self.seconds = {step: limit * slack(options) for step, (limit, _) in STEPS.items()}
        self.end = time.monotonic() + options.limit
        self.deadline = self.end
        self.lines, self.failures, self.runs = [], 0, 0
        self.figures = {}
        with contextlib.suppress(FileNotFoundError):
            self.figures = json.loads((options.out / "device.json").read_text())
        self.tree = self.unpack(Path(options.kit).resolve())
        self.weft = self.tree / "bin" / "weft"
        self.environment = dict(os.environ, XDG_CACHE_HOME=str(work / "cache"))
        self.pool = concurrent.futures.ThreadPoolExecutor()
        wanted = {graph for step in options.only for graph in STEPS[step][1]}
        self.making = {name: self.pool.submit(self.make, name) for name in self.graphs() if name in wanted}

    def unpack(self, kit: Path) -> Path:
        """The folder with bin and lib: the wheel's package, with the tests of kernels beside weft."""
        self.edges = kit / "edges.npz"
        wheels = list(kit.glob("weft-*.whl"))
        if not wheels:
            return kit
        zipfile.ZipFile(wheels[0]).extractall(self.work)
        tree = self.work / "weft"
        with lzma.open(kit / "kernel.test.xz") as tests, (tree / "bin" / "kernel.test").open("wb") as out:
            shutil.copyfileobj(tests, out)
        for program in (tree / "bin").iterdir():
            program.chmod(0o755)
        return tree

    # Graphs are made from the beginning on, beside the steps that need none.

    def graphs(self) -> dict[str, tuple]:
        def sized(quick, usual):
            return str(quick if self.quick else usual)

        return {
            "sbm": ("generate", "sbm", ("--vertices", sized(40, 4000), "--degree", sized(5, 15), *NOISE)),
            "uniform-15": (
                "generate",
                "uniform",
                ("--vertices", sized(40, 200_000), "--degree", "15", *NOISE),
            ),
            "github": (
                "import",
                "npz",
                ("--symmetrize", "--random-features", FEATURES, "--split", "random:60/20/20"),
            ),
            "rmat-20": ("generate", "rmat", ("--scale", sized(5, 20), *NOISE)),
            "rmat-22": ("generate", "rmat", ("--scale", sized(9, 22), *NOISE)),
            **{name: ("generate", "uniform", graph.flags(self.quick)) for name, graph in card.GRAPHS.items()},
        }

    def make(self, name: str) -> Path:
        *kind, flags = self.graphs()[name]
        store = self.work / name.replace("/", "-")
        if name in card.GRAPHS and not self.quick:
            card.room(name, self.work)
        if name == "github":
            if self.quick or not self.edges.exists():
                raise Skipped("the kit has no edges.npz, or --quick")
            archive = self.work / "github.npz"
            self.call(
                [sys.executable, HERE.parent / "peers" / "prepare.py", "github", self.edges, archive],
                until=self.end,
            )
            kind = (*kind, archive)
        self.call([self.weft, *kind, store, *flags], until=self.end)
        return store

    def store(self, name: str) -> Path:
        try:
            return self.making[name].result(self.left())
        except concurrent.futures.TimeoutError:
            raise Failed(f"{name} was not made in time") from None

    # Processes.

    def left(self, until: float = 0) -> float:
        if (left := (until or self.deadline) - time.monotonic()) <= 0:
            raise Skipped("no time is left")
        return left

    def call(self, command, status=(0,), until: float = 0, **environment) -> str:
        """The standard output of a command, which ends with the step. A failure has it as said."""
        errors, left = tempfile.TemporaryFile(), self.left(until)
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=self.environment | environment,
            cwd=self.work,
            start_new_session=True,
        )
        try:
            output, stopped = process.communicate(timeout=left)[0], ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, stopped = process.communicate()[0], "stopped at the step's limit"
        output = output.decode(errors="replace")
        if stopped or process.returncode not in status:
            errors.seek(0)
            lines = (output + errors.read().decode(errors="replace")).strip().splitlines() or ["nothing"]
            raise Failed(stopped or f"status {process.returncode}: {lines[-1][:300]}", output)
        return output

    def train(self, store: Path, *flags, device="cuda", **environment) -> dict:
        self.runs += 1
        flags = (*flags, "--device", device, "--json", "--out", self.work / f"run-{self.runs}")
        return json.loads(self.call([self.weft, "train", store, *flags], **environment))

    # Steps.

    def run(self, step: str, limit: float, parts) -> None:
        self.deadline = min(self.end, time.monotonic() + limit)
        figures = self.figures[step] = {}
        for name, work in parts():
            start = time.monotonic()
            try:
                self.left()
                line, figures[name] = work()
            except Skipped as why:
                line, figures[name] = f"skipped: {why}", {"skipped": str(why)}
            except Exception as error:  # whatever it is, the other steps go on
                why = str(error) if isinstance(error, Failed) else f"{type(error).__name__}: {error}"
                line, figures[name] = f"FAILED: {why}", {"failed": why}
                self.failures += 1
            figures[name]["wall_seconds"] = round(time.monotonic() - start, 3)
            self.lines.append(f"{step:<12} {name:<28} {line}")
            print(self.lines[-1], file=sys.stderr, flush=True)
            (self.options.out / "device.json").write_text(json.dumps(self.figures, indent=1) + "\n")

    @functools.cached_property
    def lacks_torch(self) -> str:
        program = (
            "import sys, torch, torch_geometric, safetensors; torch.cuda.is_available() or sys.exit('it "
            "finds no card')"
        )
        try:
            self.call([sys.executable, "-c", program])
        except Failed as why:
            return str(why)
        return ""

    def pytorch(self, *arguments, until: float = 0) -> str:
        if self.lacks_torch:
            raise Skipped(self.lacks_torch)
        return self.call([sys.executable, "-B", HERE / "pytorch.py", *arguments], until=until)

    def rates(self):
        def card():
            if not shutil.which("nvidia-smi"):
                raise Skipped("there is no nvidia-smi")
            text = self.call(["nvidia-smi"])
            fields = "name,driver_version,memory.total,clocks.sm,clocks.mem,clocks.max.sm,power.limit"
            line = self.call(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]).strip()
            return line, {"text": text, fields: line}

        def torch():
            figures = json.loads(self.pytorch("rates"))
            rate = {key: value / 1e9 for key, value in figures.items() if isinstance(value, float)}
            return ", ".join(
                f"{key} {value:.0f}" for key, value in rate.items()
            ) + " (GB/s, GFLOP/s)", figures

        return [("card", card), ("PyTorch", torch)]

    def weights(self):
        def drawn():
            self.pytorch("weights", FEATURES, CLASSES, self.work)
            return "PyG's, from which both train", {}

        return [("PyG", drawn)]

    def first(self):
        """What a first use takes, by the kernels' code of the kit and by NVRTC, which a copy of weft without
        that code needs."""

        def used(program, **environment):
            store, took = self.store("sbm"), []
            for run in range(2):
                start, out = time.monotonic(), program.parents[1] / f"run-{run}"
                self.call(
                    [program, "train", store, "--epochs", "1", "--device", "cuda", "--out", out],
                    **environment,
                )
                took.append(time.monotonic() - start)
            return f"first {took[0]:.2f} s, then {took[1]:.2f} s", {"seconds": took}

        def nvrtc():
            if "WEFT_CUDA" in os.environ:
                raise Skipped("WEFT_CUDA's library has kernels of its own")
            bare = self.work / "bare" / "bin" / "weft"
            shutil.copytree(
                self.tree / "lib", bare.parents[1] / "lib", ignore=shutil.ignore_patterns("*.cubin")
            )
            bare.parent.mkdir()
            shutil.copy(self.weft, bare)
            found = [file for path in sys.path for file in Path(path).glob("nvidia/*/lib/libnvrtc.so.*")]
            line, figures = used(bare, **({"WEFT_NVRTC": str(found[0])} if found else {}))
            kept = [file.name for file in (self.work / "cache" / "weft" / "kernels").iterdir()]
            return f"{line}, kept {', '.join(kept)}", figures | {"kept": kept, "library": str(found[:1])}

        def doctor():
            cards = self.doctor["cards"]
            return "; ".join(
                f"{info['name']}, CUDA {info['driver']}, sm {info['capability']}" for info in cards
            ), self.doctor

        return [("the kit's code", lambda: used(self.weft)), ("NVRTC", nvrtc), ("weft doctor", doctor)]

    def conformance(self):
        program = self.tree / "bin" / "kernel.test"
        # Named, the library is not made where it stands in for a card.
        device = {
            "WEFT_DEVICE": "cuda",
            "WEFT_DEVICE_SYNC": "1",
            "WEFT_CUDA": os.environ.get("WEFT_CUDA", DRIVER),
        }

        def tests(pattern, *before, until=0):
            output = self.call(
                [*before, program, "-test.v", "-test.run", pattern], (0, 1, 2, 9), until, **device
            )
            failed = re.findall(r"^    --- FAIL: (\S+)", output, re.M) or re.findall(
                r"^--- FAIL: (\S+)", output, re.M
            )
            return output, len(re.findall(r"^ *--- PASS", output, re.M)), failed

        def whole():
            output, passed, failed = tests(FEW if self.quick else "^Test(Conformance|Hub|SameBitsOnACard)")
            texts = {} if passed and ("\nPASS" in output or failed) else {"the end": output[-2000:]}
            for name in failed:  # a card that met an error fails all that follows: does it fail alone, too?
                try:
                    text, _, bad = tests("/".join(f"^{re.escape(part)}$" for part in name.split("/")))
                except (Failed, Skipped) as why:
                    text, bad = f"not tried: {why}", [name]
                if bad or "\nPASS" not in text:
                    texts[name] = text[-2000:]
            if texts:
                self.figures["conformance"]["texts"] = texts
                raise Failed(f"{passed} pass, these fail alone: {', '.join(texts)}")
            return f"{passed} pass" + (f", {len(failed)} only alone" if failed else ""), {
                "passed": passed,
                "alone": failed,
            }

        def sanitized(tool):
            """A part, in a quarter of the step's time: these tools take many times as long. One that is
            stopped has found nothing, and fails."""
            program = shutil.which("compute-sanitizer", path=os.environ["PATH"] + ":/usr/local/cuda/bin")
            if not program:
                raise Skipped("there is no compute-sanitizer")
            sanitizer = (program, "--error-exitcode", "9")
            until, longest, tried, passed = time.monotonic() + self.seconds["conformance"] / 4, 0, 0, 0
            for kind in SANITIZED:
                start = time.monotonic()
                if tried and start + 2 * longest > until:
                    break
                output, good, failed = tests(
                    f"^TestConformance$/^{kind}$", *sanitizer, "--tool", tool, until=until
                )
                found = [
                    line
                    for line in output.splitlines()
                    if re.match(r"=+ .*(Invalid|Race|hazard|Error|error)", line)
                ]
                if failed or any(not re.search(r"\b0 (errors|hazards)", line) for line in found):
                    self.figures["conformance"][tool + " says"] = output[:20000]
                    raise Failed("; ".join([*failed, *found])[:300])
                if not good or "\nPASS" not in output:  # it ended otherwise than by itself
                    self.figures["conformance"][tool + " says"] = output[-20000:]
                    ends = output.strip().splitlines() or ["it says nothing"]
                    raise Failed(f"it ended early: {ends[-1][:200]}")
                longest, tried, passed = max(longest, time.monotonic() - start), tried + 1, passed + good
            return f"{passed} pass, of {tried} of {len(SANITIZED)} kinds of kernels", {
                "passed": passed,
                "kinds": SANITIZED[:tried],
            }

        return [
            ("whole", whole),
            *((tool, lambda tool=tool: sanitized(tool)) for tool in ("memcheck", "racecheck")),
        ]

    def bits(self):
        """The same bits again, and the CPU's curves."""
        epochs = 4 if self.quick else 20
        hidden = ("--hidden", "8" if self.quick else "64", "--seed", "3")

        def train(name, device="cuda"):
            return self.train(self.store("sbm"), *EIGHT[name], *hidden, "--epochs", epochs, device=device)

        def again(name):
            a, b = (train(name)["losses"] for _ in range(2))
            if a != b:
                raise Failed(f"two runs of {name} differ by {apart(a, b):.1e}")
            return "equal", {"losses": a}

        def resumed():
            whole = train("sage")["losses"]
            self.train(self.store("sbm"), *EIGHT["sage"], *hidden, "--epochs", epochs // 2)
            half = self.work / f"run-{self.runs}"
            command = [self.weft, "train", "--resume", half, "--epochs", epochs, "--device", "cuda", "--json"]
            losses = json.loads(self.call(command))["losses"]
            if losses != whole:
                raise Failed(f"a resumed run differs by {apart(losses, whole):.1e}")
            return "equal", {}

        def curve(name):
            here, there = train(name, "cpu"), train(name)
            off, on_cpu = apart(here["losses"], there["losses"]), there["device"]["on_cpu"]
            line, figures = (
                f"{off:.1e} from the CPU's{on_cpu_note(on_cpu)}",
                {"apart": off, "device": there["device"]},
            )
            if off > CLOSE:
                raise Failed(line)
            return line, figures

        def graphs(name):
            """Epochs of a small graph with CUDA graphs and without them."""
            flags = (*EIGHT[name], *hidden, "--epochs", 2 * epochs)
            recorded, plain = (self.train(self.store("sbm"), *flags, WEFT_DEVICE_GRAPHS=on) for on in "10")
            if recorded["losses"] != plain["losses"]:
                raise Failed(f"they change losses by {apart(recorded['losses'], plain['losses']):.1e}")
            took, device = (
                [card.steady(record["epoch_seconds"]) for record in (recorded, plain)],
                recorded["device"],
            )
            if not device["graphs"]["launches"]:
                raise Failed("the driver made no graph")
            line = (
                f"{1e3 * took[0]:.3f} ms, {1e3 * took[1]:.3f} without; {device['graphs']} of "
                f"{device['launches']} launches"
            )
            return line, {"with": took[0], "without": took[1], "device": device}

        return [
            *((f"graphs, {name}", lambda name=name: graphs(name)) for name in ("gcn", "sage", "gat")),
            ("two runs", lambda: again("sage")),
            ("two runs, graph=4", lambda: again("sage, graph=4")),
            ("a resume", resumed),
            *((name, lambda name=name: curve(name)) for name in EIGHT),
        ]

    def kernels(self):
        """Each kernel ÷ its bound. Products are held against PyTorch's, too."""

        def bench(graph, only):
            flags = (
                ("--quick", "--only", f"^gcn.*f32 {graph}")
                if self.quick
                else ("--only", f"^({only}).*{graph}")
            )
            report = json.loads(self.call([self.weft, "bench", "--device", "cuda", "--json", *flags]))
            worst = {}
            for k in report["kernels"]:
                name = f"{k['name']} {k['precision']}"
                if k["seconds"] > 20e-6 and k["fraction"] < worst.get(name, k)["fraction"] + 1e-9:
                    worst[name] = k
            slow = sorted(worst.items(), key=lambda entry: entry[1]["fraction"])[:12]
            machine, peer = report["machine"], self.figures.get("rates", {}).get("PyTorch", {})
            lines = [f"copies {machine['read_bytes_per_second'] / 1e9:.0f} GB/s"]
            for rate, dtype in (("flops", "f32"), ("bfloat16_flops", "bf16")):
                best = peer.get(f"product_{dtype}_8192x8192x8192", 0)
                lines.append(
                    f"products {dtype} {machine[rate] / 1e9:.0f} GFLOP/s, PyTorch's {best / 1e9:.0f}"
                )
            for m in report["models"]:
                epoch = f"{1e3 * m['epoch_seconds']:.1f} ms, {m['times_bound']:.2f} × its bound"
                lines.append(f"{m['model']} {m['precision']} {epoch}")
            lines += [
                f"{k['fraction']:6.3f} of its bound: {name} {k['shape']}, {1e3 * k['seconds']:.3f} ms"
                for name, k in slow
            ]
            return ("\n" + " " * 42).join(lines), report

        only = "sage 3×256|gcn|gat "
        return [(graph, lambda graph=graph: bench(graph, only)) for graph in ("uniform", "rmat")]

    def epochs(self):
        """Epochs and peaks, from PyG's weights where there are some."""
        return self.models(STEPS["epochs"][1], ("f32", "bf16"), 20)

    def rmat(self):
        return self.models(STEPS["rmat"][1], ("f32",), card.EPOCHS)

    def papers(self):
        """Random graphs of published sizes, in the card's memory and from the host's, beside PyG on the same
        stores and what was published of the real graphs. PyG's models do without a plain edge_index, whose
        messages of 256 floats take 117 GB or more."""

        def ours(graph):
            name_of = {"sage": "SAGE 3×256", "gcn": "GCN 3×256"}

            def found(model, precision):
                figures = self.figures["papers"].get(f"{card.like(graph)} {name_of[model]}", {})
                return figures if precision == "f32" and "median" in figures else None

            return found

        def part(graph, share):
            return f"{card.like(graph)} PyG", lambda: self.peers(
                graph, str(card.EPOCHS), "EdgeIndex,csr", "sage,gcn", ours(graph), share
            )

        return [*card.parts(self, STEPS["papers"][1]), part("products", 0.6), part("Reddit", 1)]

    def larger(self):
        return card.parts(self, STEPS["larger"][1])

    @functools.cached_property
    def doctor(self) -> dict:
        """What weft doctor says of cards."""
        found = json.loads(self.call([self.weft, "doctor", "--json"]))["gpu"]
        if "not_found" in found:
            raise Failed(found["not_found"])
        return found

    @property
    def link(self) -> dict[str, float]:
        """Bytes a second between pinned memory of the host and the card."""
        first = self.doctor["cards"][0]
        return {way: first[f"pinned_{way}_bytes_per_second"] for way in ("to_device", "to_host")}

    def models(self, graphs, precisions, epochs):
        def run(graph, model, precision):
            weights, count = self.work / f"{model.name}.safetensors", 3 if self.quick else epochs
            flags = [*model.weft_flags(), "--epochs", count, "--eval-every", count, "--precision", precision]
            flags += ["--hidden", "8"] if self.quick else ["--init", weights] if weights.exists() else []
            report = self.train(self.store(graph), *flags)
            figures = {key: report[key] for key in ("losses", "epoch_seconds", "device", "graph")}
            median, peak = card.steady(report["epoch_seconds"]), report["device"]["peak_bytes"] / 1e6
            return (
                f"{1e3 * median:.1f} ms, {peak:.0f} MB{on_cpu_note(report['device']['on_cpu'])}",
                figures | {"median": median},
            )

        every = [
            (graph, model, precision)
            for graph in graphs
            for model in MODELS.values()
            for precision in precisions
        ]
        return [
            (f"{graph} {model.name} {case}", lambda case=(graph, model, case): run(*case))
            for graph, model, case in every
        ]

    def peers(self, graph, epochs, forms, models, ours, share=1.0):
        """PyG's models on a store, in each form and precision, beside weft's epochs of that precision. The
        peer is the fastest."""
        lines, until = [], time.monotonic() + share * self.left()
        try:
            text = self.pytorch(
                "train", self.store(graph), self.work, epochs, "cuda", forms, models, until=until
            )
        except Failed as failed:
            text = failed.output
            lines.append(str(failed))
        rows = [json.loads(line) for line in text.splitlines()]
        for row in rows:
            head = f"{row['model']:<5} {row['form']:<11} {row['precision']}"
            if "failed" in row:
                lines.append(f"{head} {row['failed'][:120]}")
                continue
            row["median"] = statistics.median(row["epoch_seconds"][1:])
            line = f"{head} {1e3 * row['median']:.1f} ms, {row['peak_bytes'] / 1e6:.0f} MB"
            if weft := ours(row["model"], "bf16" if row["precision"] == "bf16" else "f32"):
                row["times_weft"] = row["median"] / weft["median"]
                row["times_weft_memory"] = row["peak_bytes"] / weft["device"]["peak_bytes"]
                line += (
                    f": {row['times_weft']:.2f} × weft's time, {row['times_weft_memory']:.2f} × its memory"
                )
                if (
                    row["precision"] == "f32"
                    and (self.work / f"{row['model']}.safetensors").exists()
                    and "losses" in weft
                ):
                    row["apart"] = apart(row["losses"][:3], weft["losses"][:3])
                    line += f", losses {row['apart']:.1e} apart"
                    if row["apart"] > ALIKE:
                        line, self.failures = f"{line}: FAILED", self.failures + 1
            lines.append(line)
        if not rows:
            raise Failed("; ".join(lines) or "it says nothing")
        for name in dict.fromkeys(row["model"] for row in rows):
            measured = [row for row in rows if row["model"] == name and "median" in row]
            if measured:
                best = min(measured, key=lambda row: row["median"])
                best["fastest"] = True
                lines.append(
                    f"{name}: the fastest of PyG's is {best['form']}, {best['precision']}: "
                    f"{1e3 * best['median']:.1f} ms"
                )
        return ("\n" + " " * 42).join(lines), {"rows": rows}

    def pyg(self):
        def ours(graph):
            epochs = self.figures.get("epochs", {})
            return lambda model, precision: next(
                (found for found in [epochs.get(f"{graph} {model} {precision}", {})] if "median" in found),
                None,
            )

        def part(graph, share):
            return graph, lambda: self.peers(
                graph, "20", "EdgeIndex,csr,edge_index,compiled", "sage,gcn,gat", ours(graph), share
            )

        return [part("uniform-15", 0.5), part("github", 1)]


# The steps in their order, with their limits in seconds and the graphs that they need. The last, for a card
# of one's own, is made if it is named. NVRTC compiles for 57 seconds of a processor.
STEPS = {
    "rates": (50, ()),
    "first": (120, ("sbm",)),
    "conformance": (150, ()),
    "bits": (90, ("sbm",)),
    "kernels": (130, ()),
    "weights": (60, ()),
    "epochs": (100, ("uniform-15", "github")),
    "pyg": (150, ("uniform-15", "github")),
    "rmat": (60, ("rmat-20", "rmat-22")),
    "papers": (170, ("rmat-22", "products", "Reddit")),
    "larger": (7200, ("papers100M/10", "IGB-medium")),
}
USUAL = [*STEPS][:-1]
CALLS = {"1": USUAL[:5], "2": USUAL[5:]}
A_CALL = 570  # seconds


def slack(options) -> int:
    """By how much the limits of steps and calls are multiplied: a machine that stands in for a card may be
    slow."""
    return 10 if options.quick else 1


def apart(a: list[float], b: list[float]) -> float:
    """The largest relative difference; that of a number that is none is infinite."""
    return max(abs(x - y) / abs(y) if x == x and y == y else float("inf") for x, y in zip(a, b, strict=True))


def on_cpu_note(on_cpu: list[dict[str, Any]]) -> str:
    return f"; on the CPU: {', '.join(one['kernel'] for one in on_cpu)}" if on_cpu else ""


def hold() -> str:
    """Opens a context on each card until this process ends, and says on how many. Without one, each of some
    sixty processes would wait for the driver to begin."""
    try:
        driver = ctypes.CDLL(os.environ.get("WEFT_CUDA", DRIVER))
        count, context = ctypes.c_int(), ctypes.c_void_p()
        statuses = [driver.cuInit(0), driver.cuDeviceGetCount(ctypes.byref(count))]
        statuses += [
            driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), card) for card in range(count.value)
        ]
    except (OSError, AttributeError) as why:
        return f"none: {why}"
    return f"on {count.value} of the cards" if not any(statuses) else f"none: CUDA's statuses {statuses}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="check.py", description="Tries weft on a card.")
    parser.add_argument("--kit", required=True, help="the folder of make device-kit")
    parser.add_argument("--out", required=True, type=Path, help="where device.json is written")
    parser.add_argument("--quick", action="store_true", help="the same steps on tiny graphs")
    calls = "; ".join(f"{call}: {', '.join(steps)}" for call, steps in CALLS.items())
    parser.add_argument(
        "--call", choices=CALLS, help=f"the steps of one of two calls within {A_CALL} seconds: {calls}"
    )
    parser.add_argument(
        "--only", help=f"some of the steps, of {', '.join(STEPS)} (default: those of the call, or of both)"
    )
    parser.add_argument(
        "--limit",
        type=float,
        help=f"seconds of all steps together (default {A_CALL} of a call, else those of the steps)",
    )
    options = parser.parse_args()
    options.only = options.only.split(",") if options.only else CALLS.get(options.call, USUAL)
    if unknown := [step for step in options.only if step not in STEPS]:
        parser.error(f"--only {unknown[0]}: there is no such step; there are {', '.join(STEPS)}")
    if options.limit is None:
        options.limit = slack(options) * (
            A_CALL if options.call else sum(STEPS[step][0] for step in options.only)
        )
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    print(f"an idle context: {hold()}", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="weft-device-") as work:
        check = Check(options, Path(work))
        for step in options.only:
            check.run(step, check.seconds[step], getattr(check, step))
        check.pool.shutdown(cancel_futures=True)
    print("\n".join(check.lines))
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
