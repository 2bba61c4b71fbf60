"""Measures what checkpoints cost: runs with one after every epoch beside runs without, in turn.

    scripts/checkpoints/bench.py STORE [--pairs 4] [--epochs 6] [-- flags of weft train]
"""

import argparse
import datetime
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
        runs: dict[str, list[float]] = {"0": [], "1": []}
        written = []
        for pair in range(options.pairs):
            for every in ("0", "1") if pair % 2 else ("1", "0"):
                out = Path(folder) / f"run-{pair}-{every}"
                seconds, summary = train(options, every, out)
                runs[every].append(seconds)
                if every == "1":
                    written.append(summary["checkpoints"])
        last = Path(folder) / f"run-{options.pairs - 1}-1"
        summary = weft("--resume", str(last), "--epochs", str(options.epochs + 1))
        size = written[-1]["bytes"]
        none, each = (statistics.median(runs[every]) for every in ("0", "1"))
        ratio = statistics.median(b / a for a, b in zip(runs["0"], runs["1"]))
        print(f"epoch without checkpoints  {none:8.3f} s")
        print(f"epoch with one after each  {each:8.3f} s   {100 * (ratio - 1):+.1f} % (median of {options.pairs} pairs)")
        print(f"size of a checkpoint       {size / 1e6:8.2f} MB")
        print(f"seconds until it is on disk{statistics.median(w['write_seconds'] for w in written):8.3f}")
        print(f"seconds to read it         {summary['checkpoints']['read_seconds']:8.3f}")
        print(f"as many bytes by one write {disk(Path(folder), size):8.3f} s, with fsync")


def train(options: argparse.Namespace, every: str, out: Path) -> tuple[float, dict]:
    """Returns the seconds of an epoch with all that belongs to it, and the run's summary."""
    summary = weft(
        options.store, *(options.flags or SAGE), "--epochs", str(options.epochs), "--eval-every", str(options.epochs),
        "--checkpoint-every", every, "--out", str(out),
    )
    run = json.loads((out / "run.json").read_text())
    started, finished = (datetime.datetime.fromisoformat(run[key]) for key in ("started", "finished"))
    return (finished - started).total_seconds() / options.epochs, summary


def weft(*arguments: str) -> dict:
    done = subprocess.run([WEFT, "train", *arguments, "--json"], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)


def disk(folder: Path, size: int) -> float:
    """Returns the seconds that the disk needs for so many bytes."""
    begun = time.monotonic()
    with open(folder / "bytes", "wb") as file:
        file.write(os.urandom(size))
        file.flush()
        os.fsync(file.fileno())
    return time.monotonic() - begun


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", help="the graph")
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--dir", default=".", help="folder on the disk to measure")
    parser.add_argument("flags", nargs="*", help="of weft train, after --")
    return parser.parse_args()


if __name__ == "__main__":
    main()
