"""What must hold of a run: its plan, its results, predictions with its weights, and its continuation on
another mesh."""

import json
import math
import re

import numpy as np

from metrics import measured
from settings import words

CHANGES = {
    "parallel", "partitions", "offload", "partition", "prefetch", "keep-halo", "halo", "aggregation-chunks",
    "recompute", "threads", "memory-limit", "balance", "chunks",
}  # fmt: skip
OF_EPOCHS = ("cosine", "step", "linear")  # schedules that depend on --epochs
TOLERANCE = {"f32": 2e-4, "bf16": 0.05}


def refusal(process):
    """What is wrong with a refusal: it is one line beside warnings, without a trace of Go."""
    lines = [line for line in process.stderr.splitlines() if not line.startswith("weft: warning: ")]
    if (
        len(lines) != 1
        or not lines[0].startswith("weft: ")
        or re.search(r"goroutine \d|panic:|internal error", process.stderr)
    ):
        yield f"a refusal of {len(lines)} lines: {process.stderr[-600:]!r}"
    if process.stdout:
        yield f"a refusal writes to standard output: {process.stdout[:200]!r}"


def planned(plan, run, flags):
    """The plan's bytes are those of the run: of messages, of the last epoch that was asked for, unless that
    is the first."""
    sent, last = run["communication"], run["epochs_run"] == flags["epochs"] > 1 and "drop-edge" not in flags
    for name, bytes_ in (
        (n, sum(plan[f"{n}_bytes"])) for n in ("halo", "layout", "stage", "links") if f"{n}_bytes" in plan
    ):
        if last and bytes_ != sent.get(name, {"bytes": 0})["bytes"]:
            yield f"{name}: {bytes_} bytes planned, {sent.get(name)} sent"
    for name in ("peak_tensor_bytes", "graph_bytes", "edge_columns"):
        if plan[name] != run[name] and (last or name != "edge_columns"):
            turns = {"offload", "partitions", "chunks"} & set(flags)
            if not turns or name == "graph_bytes" or any(r > p for p, r in zip(plan[name], run[name])):
                yield f"{name}: {plan[name]} planned, {run[name]} in the run"
    if limit := flags.get("memory-limit"):
        allowed = int(re.sub(r"\D", "", limit)) << (20 if "Mi" in limit else 10)
        if any(t + g > allowed for t, g in zip(run["peak_tensor_bytes"], run["graph_bytes"])):
            yield (
                f"a run takes {run['peak_tensor_bytes']} and {run['graph_bytes']} bytes, above "
                f"--memory-limit {limit}"
            )


def evaluated(evaluation, run, flags):
    """An evaluation has the metric of the summary, to the last digit."""
    for part in ("train", "val", "test"):
        metric = run["metric"]
        if part in evaluation and metric in evaluation[part] and evaluation[part][metric] != run[part]:
            yield f"{part} {metric}: {run[part]} in the summary, {evaluation[part][metric]} of evaluate"
    if run["task"] == "link":
        for part in ("val", "test"):
            for name, value in run["links"].get(part, {}).items():
                if evaluation[part].get(name) != value:
                    yield f"{part} {name}: {value} in the summary, {evaluation[part].get(name)} of evaluate"


def read(trial, graph, flags):
    """The forward pass of the next epoch has the bits of an evaluation, where it evaluates."""
    own = trial.folder / "own"
    process = trial.weft("train", graph.store, *words(flags), "--eval-every=1", "--out", own, "--quiet")
    if process.returncode:
        yield f"--eval-every 1: {process.stderr[-300:]}"
        return
    was, now = (
        [
            {key: line.get(key) for key in ("epoch", "loss", "train", "val", "test", "val_loss")}
            for line in map(json.loads, (out / "metrics.jsonl").read_text().splitlines())
        ]
        for out in (trial.folder / "run", own)
    )
    if was != now:
        yield (
            "with --eval-every 1: "
            f"{next((pair for pair in zip(now, was) if pair[0] != pair[1]), (len(now), len(was)))}, which "
            "differ"
        )
    if (own / "predictions.npy").read_bytes() != (trial.folder / "run" / "predictions.npy").read_bytes():
        yield "with --eval-every 1: other predictions"


def computed(graph, folder, evaluation, flags):
    """The metrics are those of the predictions, where the split is the store's first."""
    if "split" in flags:
        return
    labels, parts = graph.arrays()
    outputs = np.load(folder / "run" / "predictions.npy")
    for part, rows in parts.items():
        rows = rows[0] if rows.ndim > 1 else rows
        for name, value in evaluation.get(part, {}).items():
            if isinstance(value, float | int | None):
                want = measured(name, graph.labels, outputs[rows], labels[rows])
                if (
                    want is not None
                    and value is not None
                    and not math.isclose(want, value, rel_tol=1e-6, abs_tol=1e-9)
                ):
                    yield f"{part} {name}: {value} of evaluate, {want} of predictions.npy"


def predicted(folder, run, flags):
    """What predict writes are the run's predictions: on one worker their bits."""
    ours, theirs = np.load(folder / "predicted.npy"), np.load(folder / "run" / "predictions.npy")
    if ours.shape != theirs.shape:
        yield f"predict writes {ours.shape}, and the run {theirs.shape}"
        return
    alone = run["workers"] == 1 and "partitions" not in flags
    if alone and not np.array_equal(ours, theirs, equal_nan=True):
        yield f"predict differs from predictions.npy by {np.abs(ours - theirs).max()}"
    limit = {"f32": 1e-3, "bf16": 0.1}[flags.get("precision", "f32")] * max(1, np.abs(theirs).max())
    if not np.allclose(ours, theirs, rtol=0, atol=limit, equal_nan=True):
        yield (
            f"predict differs from predictions.npy by {np.abs(ours - theirs).max()}, and "
            f"{np.abs(theirs).max()} is the largest"
        )


def resumes(flags, run):
    """Whether a run may be broken off: nothing depends on the number of epochs."""
    return (
        flags.get("schedule") not in OF_EPOCHS
        and "wire-schedule" not in flags
        and run["epochs_run"] == flags["epochs"]
        and "offload" not in flags
        and "memory-limit" not in flags
    )


def continued(trial, graph, flags, run):
    """A run that is broken off and resumed has the bits of one that is not; on another mesh its next loss is
    the same up to rounding."""
    first = max(1, flags["epochs"] // 2)
    for name, other in (
        ("again", None),
        ("elsewhere", trial.chance.choice(["", "graph=2", "tensor=2", "graph=3"])),
    ):
        out = trial.folder / name
        process = trial.weft(
            "train", graph.store, *words(flags | {"epochs": first}), "--out", out, "--json", "--quiet"
        )
        if process.returncode:
            yield f"{first} epochs: {process.stderr[-300:]}"
            return
        mesh = [] if other is None else [f"--parallel={other}", "--partitions=0"]
        process = trial.weft(
            "train", "--resume", out, f"--epochs={flags['epochs']}", *mesh, "--json", "--quiet"
        )
        if process.returncode == 2 and other is not None:
            yield from refusal(process)
            continue
        if process.returncode:
            yield f"resume {mesh}: {process.stderr[-300:]}"
            continue
        again = json.loads(process.stdout)
        if other is None:
            trial.count["resumed"] += 1
            for key in ("losses", "train", "val", "test", "val_loss", "best_epoch"):
                if again[key] != run[key]:
                    yield f"resumed after {first}: {key} {again[key]}, without {run[key]}"
            if (out / "predictions.npy").read_bytes() != (
                trial.folder / "run" / "predictions.npy"
            ).read_bytes():
                yield f"resumed after {first}: other predictions"
        elif first < flags["epochs"] and not {"wire", "chunks"} & set(flags):
            trial.count["resumed elsewhere"] += 1
            got, want = again["losses"][first], run["losses"][first]
            limit = TOLERANCE[flags.get("precision", "f32")] * max(1, abs(want))
            if not abs(got - want) <= limit:
                yield f"resumed after {first} on {other or 'one worker'}: loss {got}, without {want}"
