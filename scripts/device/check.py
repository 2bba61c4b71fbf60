#!/usr/bin/env python3
"""Tries weft on a card, in ten minutes, on a machine where nothing can be built or fetched: what `make device-kit` has put
into a folder is all it needs. What PyTorch and PyG do on that card is measured beside it, where this Python has them.

    check.py --kit FOLDER --out FOLDER [--quick] [--only STEP,STEP] [--limit SECONDS]

Each figure goes to device.json in --out as soon as it is known; a table is printed last. A step has a limit in seconds, and
what fails in it stops nothing else. --quick runs the same steps on graphs of some vertices, for bin/libcuda-on-cpu.so in
WEFT_CUDA, which needs no card. The exit status is 1 if something failed. Standard library only."""

import argparse
import concurrent.futures
import functools
import json
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
CLOSE, ALIKE = 1e-5, 1e-3  # relative differences of losses in float32: from the CPU's, and from PyG's of three epochs


class Check:
    def __init__(self, options, work: Path):
        self.options, self.quick, self.work = options, options.quick, work
        self.end = time.monotonic() + options.limit
        self.deadline = self.end
        self.figures, self.lines, self.failures, self.runs = {}, [], 0, 0
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
        shutil.copy(kit / "kernel.test", tree / "bin")
        for program in (tree / "bin").iterdir():
            program.chmod(0o755)
        return tree

    # Graphs are made from the beginning on, beside the steps that need none.

    def graphs(self) -> dict[str, tuple]:
        def sized(quick, usual):
            return str(quick if self.quick else usual)

        return {
            "sbm": ("generate", "sbm", ("--vertices", sized(40, 4000), "--degree", sized(5, 15), *NOISE)),
            "uniform-15": ("generate", "uniform", ("--vertices", sized(40, 200_000), "--degree", "15", *NOISE)),
            "github": ("import", "npz", ("--symmetrize", "--random-features", FEATURES, "--split", "random:60/20/20")),
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
            self.call([sys.executable, HERE.parent / "peers" / "prepare.py", "github", self.edges, archive], until=self.end)
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
            [str(part) for part in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
            env=self.environment | environment, cwd=self.work, start_new_session=True,
        )
        try:
            said, stopped = process.communicate(timeout=left)[0], ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            said, stopped = process.communicate()[0], "stopped at the step's limit"
        said = said.decode(errors="replace")
        if stopped or process.returncode not in status:
            errors.seek(0)
            lines = (said + errors.read().decode(errors="replace")).strip().splitlines() or ["nothing"]
            raise Failed(stopped or f"status {process.returncode}: {lines[-1][:300]}", said)
        return said

    def train(self, store: Path, *flags, device="cuda") -> dict:
        self.runs += 1
        flags = (*flags, "--device", device, "--json", "--out", self.work / f"run-{self.runs}")
        return json.loads(self.call([self.weft, "train", store, *flags]))

    # Steps.

    def run(self, step: str, limit: float, parts) -> None:
        self.deadline = min(self.end, time.monotonic() + limit)
        figures = self.figures.setdefault(step, {})
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
        program = "import sys, torch, torch_geometric, safetensors; torch.cuda.is_available() or sys.exit('it finds no card')"
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
            return ", ".join(f"{key} {value:.0f}" for key, value in rate.items()) + " (GB/s, GFLOP/s)", figures

        def weights():
            self.pytorch("weights", FEATURES, CLASSES, self.work)
            return "PyG's, from which both train", {}

        return [("card", card), ("PyTorch", torch), ("weights", weights)]

    def first(self):
        """What a first use takes, by the kernels' code of the kit and by NVRTC, which a copy of weft without that code needs."""
        def used(program, **environment):
            store, took = self.store("sbm"), []
            for run in range(2):
                start, out = time.monotonic(), program.parents[1] / f"run-{run}"
                self.call([program, "train", store, "--epochs", "1", "--device", "cuda", "--out", out], **environment)
                took.append(time.monotonic() - start)
            return f"first {took[0]:.2f} s, then {took[1]:.2f} s", {"seconds": took}

        def nvrtc():
            if "WEFT_CUDA" in os.environ:
                raise Skipped("WEFT_CUDA's library has kernels of its own")
            bare = self.work / "bare" / "bin" / "weft"
            shutil.copytree(self.tree / "lib", bare.parents[1] / "lib", ignore=shutil.ignore_patterns("*.cubin"))
            bare.parent.mkdir()
            shutil.copy(self.weft, bare)
            found = [file for path in sys.path for file in Path(path).glob("nvidia/*/lib/libnvrtc.so.*")]
            line, figures = used(bare, **({"WEFT_NVRTC": str(found[0])} if found else {}))
            kept = [file.name for file in (self.work / "cache" / "weft" / "kernels").iterdir()]
            return f"{line}, kept {', '.join(kept)}", figures | {"kept": kept, "library": str(found[:1])}

        def doctor():
            cards = self.doctor["cards"]
            return "; ".join(f"{of['name']}, CUDA {of['driver']}, sm {of['capability']}" for of in cards), self.doctor

        return [("the kit's code", lambda: used(self.weft)), ("NVRTC", nvrtc), ("weft doctor", doctor)]

    def conformance(self):
        program = self.tree / "bin" / "kernel.test"
        device = {"WEFT_DEVICE": "cuda", "WEFT_DEVICE_SYNC": "1"}
        some = "^TestConformance$/^(head scale|cross-entropy)$" if self.quick else "^TestConformance$"

        def tests(pattern, *before, until=0):
            said = self.call([*before, program, "-test.v", "-test.run", pattern], (0, 1, 2, 9), until, **device)
            failed = re.findall(r"^    --- FAIL: (\S+)", said, re.M) or re.findall(r"^--- FAIL: (\S+)", said, re.M)
            return said, len(re.findall(r"^ *--- PASS", said, re.M)), failed

        def whole():
            said, passed, failed = tests(some if self.quick else "^Test(Conformance|Hub)")
            texts = {} if passed and ("\nPASS" in said or failed) else {"the end": said[-2000:]}
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
            return f"{passed} pass" + (f", {len(failed)} only alone" if failed else ""), {"passed": passed, "alone": failed}

        def sanitized(tool):
            """A part: what is found in a quarter of the step's time. These tools take many times as long."""
            sanitizer = shutil.which("compute-sanitizer", path=os.environ["PATH"] + ":/usr/local/cuda/bin")
            if not sanitizer:
                raise Skipped("there is no compute-sanitizer")
            until, ended = time.monotonic() + STEPS["conformance"][0] / 4, ""
            try:
                said, passed, failed = tests(some, sanitizer, "--tool", tool, "--error-exitcode", "9", until=until)
            except Failed as stopped:
                said, passed, failed, ended = stopped.said, 0, [], f"; {stopped}"
            found = [line for line in said.splitlines() if re.match(r"=+ .*(Invalid|Race|hazard|Error|error)", line)]
            if failed or any(not re.search(r"\b0 (errors|hazards)", line) for line in found):
                self.figures["conformance"][tool + " says"] = said[:20000]
                raise Failed("; ".join([*failed, *found])[:300])
            return f"{passed} pass{ended}", {"passed": passed}

        return [("whole", whole), *((tool, lambda tool=tool: sanitized(tool)) for tool in ("memcheck", "racecheck"))]

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
            line, figures = f"{off:.1e} from the CPU's{said(on_cpu)}", {"apart": off, "device": there["device"]}
            if off > CLOSE:
                raise Failed(line)
            return line, figures

        return [
            ("two runs", lambda: again("sage")), ("two runs, graph=4", lambda: again("sage, graph=4")), ("a resume", resumed),
            *((name, lambda name=name: curve(name)) for name in EIGHT),
        ]

    def kernels(self):
        """Each kernel ÷ its bound. Products are held against PyTorch's, too."""
        def bench(graph, only):
            flags = ("--quick", "--only", f"^gcn.*f32 {graph}") if self.quick else ("--only", f"^({only}).*{graph}")
            report = json.loads(self.call([self.weft, "bench", "--device", "cuda", "--json", *flags]))
            worst = {}
            for k in report["kernels"]:
                name = f"{k['name']} {k['precision']}"
                if k["seconds"] > 20e-6 and k["fraction"] < worst.get(name, k)["fraction"] + 1e-9:
                    worst[name] = k
            slow = sorted(worst.items(), key=lambda of: of[1]["fraction"])[:12]
            machine, peer = report["machine"], self.figures.get("rates", {}).get("PyTorch", {})
            lines = [f"copies {machine['read_bytes_per_second'] / 1e9:.0f} GB/s"]
            for rate, of in (("flops", "f32"), ("bfloat16_flops", "bf16")):
                best = peer.get(f"product_{of}_8192x8192x8192", 0)
                lines.append(f"products {of} {machine[rate] / 1e9:.0f} GFLOP/s, PyTorch's {best / 1e9:.0f}")
            for m in report["models"]:
                epoch = f"{1e3 * m['epoch_seconds']:.1f} ms, {m['times_bound']:.2f} × its bound"
                lines.append(f"{m['model']} {m['precision']} {epoch}")
            lines += [f"{k['fraction']:6.3f} of its bound: {name} {k['shape']}, {1e3 * k['seconds']:.3f} ms" for name, k in slow]
            return ("\n" + " " * 42).join(lines), report

        only = "sage 3×256|gcn|gat "
        return [(graph, lambda graph=graph: bench(graph, only)) for graph in ("uniform", "rmat")]

    def epochs(self):
        """Epochs and peaks, from PyG's weights where there are some."""
        return self.models(STEPS["epochs"][1], ("f32", "bf16"), 20)

    def rmat(self):
        return self.models(STEPS["rmat"][1], ("f32",), card.EPOCHS)

    def papers(self):
        """Graphs of published shapes, in the card's memory and from the host's, beside what was published."""
        return card.parts(self, STEPS["papers"][1])

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
            return f"{1e3 * median:.1f} ms, {peak:.0f} MB{said(report['device']['on_cpu'])}", figures | {"median": median}

        every = [(graph, model, of) for graph in graphs for model in MODELS.values() for of in precisions]
        return [(f"{graph} {model.name} {of}", lambda of=(graph, model, of): run(*of)) for graph, model, of in every]

    def pyg(self):
        def peers(graph, share):
            ours, lines, until = self.figures.get("epochs", {}), [], time.monotonic() + share * self.left()
            try:
                text = self.pytorch("train", self.store(graph), self.work, "20", "cuda", until=until)
            except Failed as failed:
                text = failed.said
                lines.append(str(failed))
            rows = [json.loads(line) for line in text.splitlines()]
            for row in rows:
                head = f"{row['model']:<5} {row['form']:<11}"
                if "failed" in row:
                    lines.append(f"{head} {row['failed'][:120]}")
                    continue
                row["median"] = statistics.median(row["epoch_seconds"][1:])
                line = f"{head} {1e3 * row['median']:.1f} ms, {row['peak_bytes'] / 1e6:.0f} MB"
                if "median" in (weft := ours.get(f"{graph} {row['model']} f32", {})):
                    row["times_weft"] = row["median"] / weft["median"]
                    row["times_weft_memory"] = row["peak_bytes"] / weft["device"]["peak_bytes"]
                    row["apart"] = apart(row["losses"][:3], weft["losses"][:3])
                    line += f": {row['times_weft']:.2f} × weft's time, {row['times_weft_memory']:.2f} × its memory, "
                    line += f"losses {row['apart']:.1e} apart"
                    if row["apart"] > ALIKE:
                        line, self.failures = f"{line}: FAILED", self.failures + 1
                lines.append(line)
            if not rows:
                raise Failed("; ".join(lines) or "it says nothing")
            return ("\n" + " " * 42).join(lines), {"rows": rows}

        return [("uniform-15", lambda: peers("uniform-15", 0.5)), ("github", lambda: peers("github", 1))]


# The steps in their order, with their limits in seconds and the graphs that they need. The last is made if it is named.
STEPS = {
    "rates": (50, ()),
    "first": (40, ("sbm",)),
    "conformance": (110, ()),
    "bits": (70, ("sbm",)),
    "epochs": (100, ("uniform-15", "github")),
    "kernels": (100, ()),
    "pyg": (110, ("uniform-15", "github")),
    "rmat": (60, ("rmat-20", "rmat-22")),
    "papers": (130, ("rmat-22", "products", "Reddit")),
    "larger": (7200, ("papers100M/10", "IGB-medium")),
}
USUAL = [*STEPS][:-1]


def apart(a: list[float], b: list[float]) -> float:
    """The largest relative difference; that of a number that is none is infinite."""
    return max(abs(x - y) / abs(y) if x == x and y == y else float("inf") for x, y in zip(a, b, strict=True))


def said(on_cpu: list[dict[str, Any]]) -> str:
    return f"; on the CPU: {', '.join(one['kernel'] for one in on_cpu)}" if on_cpu else ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="check.py", description="Tries weft on a card.")
    parser.add_argument("--kit", required=True, help="the folder of make device-kit")
    parser.add_argument("--out", required=True, type=Path, help="where device.json is written")
    parser.add_argument("--quick", action="store_true", help="the same steps on tiny graphs")
    parser.add_argument("--only", default=",".join(USUAL), help=f"some of the steps, of {', '.join(STEPS)} (default %(default)s)")
    parser.add_argument("--limit", type=float, default=570, help="seconds of all steps together (default %(default)s)")
    options = parser.parse_args()
    options.only = options.only.split(",")
    if unknown := [step for step in options.only if step not in STEPS]:
        parser.error(f"--only {unknown[0]}: there is no such step; there are {', '.join(STEPS)}")
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="weft-device-") as work:
        check = Check(options, Path(work))
        for step in options.only:
            check.run(step, STEPS[step][0], getattr(check, step))
        check.pool.shutdown(cancel_futures=True)
    print("\n".join(check.lines))
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
