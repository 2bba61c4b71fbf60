"""Measures what a checkpoint costs: one run writes one after every second epoch, beside the epoch that
follows.

    scripts/checkpoints/bench.py STORE [--epochs 30] [-- flags of weft train]

The epochs with and without a checkpoint beside them alternate, so both see the same machine.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WEFT = Path(__file__).resolve().parents[2] / "bin" / "weft"
SAGE = ["--model", "sage", "--layers", "3", "--hidden", "256"]


def main() -> None:
    options = parse()
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        run = Path(folder) / "run"
        seconds, summary = train(options, run)
        written = summary["checkpoints"]
        resumed = finish(resume(run, options.epochs + 1))
        # Epoch 3 is the first that a checkpoint is written beside; the last epoch's time has the end of the
        # run in it.
        writing, without = seconds[3:-1:2], seconds[4:-1:2]
        ratio = statistics.median(writing) / statistics.median(without)
        print(f"epoch without a checkpoint {statistics.median(without):8.3f} s   (median of {len(without)})")
        print(
            f"epoch with one beside it   {statistics.median(writing):8.3f} s   {100 * (ratio - 1):+.1f} % "
            f"(median of {len(writing)})"
        )
        print(f"size of a checkpoint       {written['bytes'] / 1e6:8.2f} MB")
        print(f"seconds until it is on disk{written['write_seconds']:8.3f}")
        print(f"seconds to read it         {resumed['checkpoints']['read_seconds']:8.3f}")
        print(f"as many bytes by one write {disk(Path(folder), written['bytes']):8.3f} s, with fsync")


def train(options: argparse.Namespace, run: Path) -> tuple[list[float], dict]:
    """Returns the seconds from one epoch's line of metrics to the next, by epoch, and the run's summary."""
    process = start(
        options.store,
        *(options.flags or SAGE),
        "--epochs",
        str(options.epochs),
        "--eval-every",
        str(options.epochs),
        "--checkpoint-every",
        "2",
        "--out",
        str(run),
    )
    at = [time.monotonic()]
    metrics = run / "metrics.jsonl"
    while process.poll() is None:
        lines = metrics.read_bytes().count(b"\n") if metrics.exists() else 0
        at += [time.monotonic()] * (lines + 1 - len(at))
        time.sleep(0.01)
    summary = finish(process)
    return [0.0] + [after - before for before, after in zip(at, at[1:])], summary


def resume(run: Path, epochs: int) -> subprocess.Popen:
    return start("--resume", str(run), "--epochs", str(epochs))


def start(*arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [WEFT, "train", *arguments, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen) -> dict:
    out, err = process.communicate()
    if process.returncode:
        sys.exit(err.strip().splitlines()[-1])
    return json.loads(out)


def disk(folder: Path, size: int) -> float:
    """Returns the seconds that the disk needs for so many bytes."""
    begun = time.monotonic()
    with open(folder / "bytes", "wb") as file:
        file.write(os.urandom(size))
        file.flush()
        os.fsync(file.fileno())
    return time.monotonic() - begun


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("store", help="the graph")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--dir", default=".", help="folder on the disk to measure")
    parser.add_argument("flags", nargs="*", help="of weft train, after --")
    return parser.parse_args()


if __name__ == "__main__":
    main()
