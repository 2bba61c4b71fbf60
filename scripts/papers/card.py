"""Graphs of published shapes on a card: in its memory, and with partitions that take turns there while others
rest in the host's. ../device/check.py runs the trials, and papers.py --device does so by it. Standard library
only.

The graphs are random, by `weft generate uniform`: any edge leads anywhere, so that partitions need as many
rows of each other as they can. A published graph has communities, and copies less."""

import json
import shutil
import statistics
from dataclasses import dataclass

# An epoch from the host's memory ÷ the larger of its copies at the link's rate and an epoch in the card's
# memory.
BAR = 1.3
TIGHT = 1 / 3  # of the memory that all takes: the limit where partitions take turns
EPOCHS = 7


class Failed(Exception):
    def __init__(self, line: str, output: str = ""):
        super().__init__(line)
        self.output = output


class Skipped(Exception):
    """Why."""


@dataclass(frozen=True)
class Graph:
    """The counts of a published graph."""

    vertices: int
    degree: float  # mean in-degree
    features: int
    classes: int
    directed: bool = False

    def flags(self, quick: bool) -> tuple:
        """Those of weft generate uniform. Quick is a graph of some vertices."""
        counts = {
            "vertices": self.vertices,
            "degree": self.degree,
            "features": self.features,
            "classes": self.classes,
        }
        if quick:
            counts = {name: min(count, most) for (name, count), most in zip(counts.items(), (600, 5, 64, 8))}
        return *(f"--{name}={count}" for name, count in counts.items()), *["--directed"][: self.directed]

    def bytes(self) -> float:
        """Of its store, about."""
        return self.vertices * (4 * self.features + 8 * self.degree + 16)


GRAPHS = {
    "products": Graph(2_449_029, 50.52, 100, 47),
    "Reddit": Graph(232_965, 492, 602, 41),
    "IGB-medium": Graph(10_000_000, 12.01, 1024, 19, directed=True),
    "papers100M/10": Graph(11_105_996, 29.1, 128, 172),
}
SAGE = ("--model=sage", "--layers=3", "--hidden=256", "--norm=batch")
GCN = ("--model=gcn", "--layers=3", "--hidden=256")
GAT = ("--model=gat", "--layers=3", "--hidden=128", "--heads=4")
DEEP = ("--model=gcn", "--layers=32", "--hidden=100")


@dataclass(frozen=True)
class Trial:
    """A model on a graph, and what was published of one like it. Partitions take turns, unless there are
    none."""

    graph: str
    name: str
    model: tuple
    precision: str = "f32"
    partitions: int = 0
    published: str = ""


FOUR = "4 parts from RAM"
TRIALS = [
    Trial("products", "SAGE 3×256", SAGE, published="DGL 0.6 on a V100: 0.34 s"),
    Trial("products", "GCN 3×256", GCN, published="GriNNder on an A5000: 1.55 s"),
    Trial("Reddit", "SAGE 3×256", SAGE, published="DGL 0.6 on a V100: 0.36 s"),
    Trial("Reddit", "GAT 3×(4×32)", GAT, published="DGL 0.6 on a V100: 0.55 s"),
    Trial("Reddit", "GCN 32×100", DEEP, published="GNNPipe on 8 A5000: 0.36 s, and its exact engine 0.87 s"),
    Trial("rmat-22", "SAGE 3×256, 12 parts from RAM", SAGE, partitions=12),
    Trial(
        "products", f"GCN 3×256, {FOUR}", GCN, partitions=4, published="GriNNder on an A5000, 4 parts: 6.73 s"
    ),
    Trial(
        "papers100M/10", "GCN 3×256", GCN, "bf16", published="NeutronTP on 16 T4, the whole, GCN 128: 134 s"
    ),
    Trial("papers100M/10", "SAGE 3×256, 8 parts from RAM", SAGE, "bf16", 8),
    Trial("IGB-medium", f"GCN 3×256, {FOUR}", GCN, "bf16", 4, "GriNNder on an A5000, from disk: 102 s"),
]


def parts(check, graphs) -> list:
    """The trials on some graphs, as parts of a step."""
    return [(f"{like(t.graph)} {t.name}", lambda t=t: trial(check, t)) for t in TRIALS if t.graph in graphs]


def like(graph: str) -> str:
    """What a graph is: a random one that has a published graph's counts is not that graph."""
    return f"like {graph}" if graph in GRAPHS else graph


def trial(check, t: Trial) -> tuple[str, dict]:
    """A line, and the figures. A run that does not fit the card, or the host, refuses itself before it
    begins, and is skipped."""
    store, epochs = check.store(t.graph), 3 if check.quick else EPOCHS
    flags = [
        *t.model,
        "--dropout=0",
        f"--precision={t.precision}",
        f"--epochs={epochs}",
        f"--eval-every={epochs}",
    ]
    if check.quick:
        flags += ["--hidden=32" if t.partitions else "--hidden=8"]
    if not t.partitions:
        run, seconds = trained(check, store, flags)
        line = f"{time(seconds)}, {size(run['peak_bytes'])}; published of {t.graph} itself: {t.published}"
        return line, {"epoch_seconds": seconds, "median": seconds, "device": run, "published": t.published}
    turns = [
        *flags,
        f"--partitions={4 if check.quick else t.partitions}",
        "--partition=random",
        "--offload=ram",
    ]
    needs = json.loads(
        fitting(check.call, [check.weft, "train", store, *turns, "--device=cuda", "--show-plan", "--json"])
    )
    limit = max(needs["least_bytes"], int(TIGHT * needs["in_memory_bytes"]))
    turns += [f"--memory-limit={limit}", f"--host-memory-limit={available()}"]
    run, seconds = trained(check, store, turns)
    try:
        in_memory = trained(check, store, flags)[1]
    except Skipped:  # the card is too small for all of it
        in_memory = None
    trace = check.work / "trace.json"
    trained(check, store, [*turns, "--epochs=2", f"--trace={trace}"])
    figures = {
        "epoch_seconds": seconds,
        "in_memory_seconds": in_memory,
        "device": run,
        "published": t.published,
        "memory_limit": limit,
        "in_memory_bytes": needs["in_memory_bytes"],
        "beside_kernels": beside_kernels(json.loads(trace.read_text()), check.link),
        **compared(seconds, in_memory, run, check.link),
    }
    lines = [*from_ram(figures), *[f"published of {t.graph} itself: {t.published}"][: bool(t.published)]]
    return ("\n" + " " * 42).join(lines), figures


def available() -> int:
    """Bytes of this machine's memory."""
    with open("/proc/meminfo") as lines:
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))


def room(graph: str, folder) -> None:
    """Skips a graph that the disk has no room for."""
    needs, free = GRAPHS[graph].bytes(), shutil.disk_usage(folder).free
    if needs > 0.9 * free:
        raise Skipped(f"the graph takes {size(needs)} of disk, of which {size(free)} are free")


def trained(check, store, flags) -> tuple[dict, float]:
    """What a run tells of the card, and the seconds of an epoch."""
    run = fitting(check.train, store, *flags)
    return run["device"], steady(run["epoch_seconds"])


def fitting(run, *arguments):
    """What a run returns. Weft's refusal skips it."""
    refusal = "status 2: "
    try:
        return run(*arguments)
    except Failed as why:
        if str(why).startswith(refusal):
            raise Skipped(str(why).removeprefix(refusal)) from None
        raise


def steady(seconds: list[float]) -> float:
    """The median epoch but for the first three and the last one, in which the run waits for each kernel, for
    its profile."""
    return statistics.median(seconds[3:-1] or seconds[-1:])


def compared(seconds: float, in_memory: float | None, run: dict, link: dict) -> dict:
    """An epoch from the host's memory beside what it cannot be faster than. Both directions of the link are
    used at once. hidden is the share of the copies, or of the kernels where these take less, that passes
    beside the others."""
    copies = max(run["to_device_bytes"] / link["to_device"], run["to_host_bytes"] / link["to_host"])
    figures = {"copies_seconds": copies, "times_bound": seconds / max(copies, in_memory or 0)}
    if in_memory:
        figures["hidden"] = min(1, max(0, (copies + in_memory - seconds) / min(copies, in_memory)))
    return figures


def from_ram(f: dict) -> list[str]:
    """The figures in words."""
    run, whole = f["device"], f["in_memory_seconds"]
    in_memory = f"in the card's memory {time(whole)}" if whole else "the card's memory does not hold it"
    lines = [
        (
            f"{time(f['epoch_seconds'])}, {size(run['peak_bytes'])} of the card, a limit of "
            f"{f['memory_limit'] / f['in_memory_bytes']:.2f} of what all takes"
        ),
        (
            f"{size(run['to_device_bytes'])} up and {size(run['to_host_bytes'])} down: alone "
            f"{time(f['copies_seconds'])}; {in_memory}"
        ),
        f"{f['times_bound']:.2f} × the longer of both (the bar is {BAR})",
        (
            f"in a trace, whose run waits for each kernel, {f['beside_kernels']:.0%} of the copies' time "
            "lies beside kernels"
        ),
    ]
    if whole:
        lines[2] += f"; {f['hidden']:.0%} of the shorter passes beside the longer"
    return lines


def size(n: float) -> str:
    return f"{n / 1e9:.2f} GB" if n >= 1e9 else f"{n / 1e6:.1f} MB"


def time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.1f} ms"


def beside_kernels(trace: dict, link: dict) -> float:
    """The share of the time in which matrices come and leave that lies beside kernels, in a trace. The span
    of a copy begins when it is asked for: what counts is its end, as long as it takes at the link's rate. A
    copy that a kernel waits for has a caller, and does not count."""
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    copies = []
    for e in spans:
        if e["cat"] == "copy" and "caller" not in e["args"]:
            end = e["ts"] + e["dur"]
            takes = 1e6 * e["args"]["bytes"] / link[e["name"].replace(" ", "_")]
            copies.append((max(e["ts"], end - takes), end))
    copies = joined(copies)
    kernels = joined((e["ts"], e["ts"] + e["dur"]) for e in spans if e["cat"] == "compute")
    both = sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a, b in overlapping(copies, kernels))
    return both / sum(end - start for start, end in copies)


def joined(spans) -> list[list[float]]:
    """The moments of spans, as ranges in order."""
    ranges: list[list[float]] = []
    for start, end in sorted(spans):
        if ranges and start <= ranges[-1][1]:
            ranges[-1][1] = max(ranges[-1][1], end)
        else:
            ranges.append([start, end])
    return ranges


def overlapping(a: list, b: list):
    """The pairs of ranges of two lists that overlap, or nearly."""
    i = j = 0
    while i < len(a) and j < len(b):
        yield a[i], b[j]
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
