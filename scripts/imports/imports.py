"""The time and memory of an import of part files beside the MD5 of the store that it writes. Run by `make
bench-import`.

    imports.py [--edges 100000000] [--parts 64] [--folder F] [--weft bin/weft]

Writes a table of random edges with four columns of numbers, a tenth as many vertices as edges, as part files
of Parquet and of CSV, imports each, and checks counts and sums of the columns in the store. The table goes to
standard output, progress to standard error. Needs NumPy, pyarrow, and disk for 80 bytes an edge."""

import argparse
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

COLUMNS = ["amount", "hour", "risk", "count"]
FORMS = {"Parquet": (pa.parquet.write_table, "parquet"), "CSV": (pa.csv.write_csv, "csv")}


def write(folder, edges, parts, form):
    """Writes the part files, and returns the sums of the columns, each number as float32 has it."""
    random, sums = np.random.default_rng(1), np.zeros(len(COLUMNS))
    written, ending = FORMS[form]
    for part in range(parts):
        rows = edges // parts
        ends = {end: random.integers(0, max(1, edges // 10), rows) for end in ("source", "target")}
        values = [
            np.round(random.lognormal(3, 1, rows), 2),
            random.integers(0, 24, rows),
            random.random(rows, dtype=np.float32),
            random.integers(1, 1000, rows),
        ]
        written(pa.table(ends | dict(zip(COLUMNS, values))), folder / f"part-{part:05d}.{ending}")
        sums += [value.astype(np.float32).sum(dtype=np.float64) for value in values]
    return sums


def digest(store):
    """The seconds that the MD5 of a store's files takes."""
    start = time.monotonic()
    for path in sorted(store.iterdir()):
        with path.open("rb") as file:
            hashlib.file_digest(file, "md5")
    return time.monotonic() - start


def sums_of(store, edges):
    features = np.load(store / "edge_features.npy", mmap_mode="r")
    assert features.shape == (edges, len(COLUMNS)), features.shape
    return sum(block.sum(axis=0, dtype=np.float64) for block in np.array_split(features, 100))


def imported(weft, form, edges, parts, folder):
    table, store = folder / form, folder / "store"
    table.mkdir()
    print(f"writing {parts} parts of {form}", file=sys.stderr)
    sums = write(table, edges, parts, form)
    size = sum(path.stat().st_size for path in table.iterdir())
    command = [weft, "import", "edges", table, store, "--edge-features", ",".join(COLUMNS)]
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, use = os.wait4(process.pid, 0)
    seconds = time.monotonic() - start
    if status:
        sys.exit(f"weft import: status {os.waitstatus_to_exitcode(status)}")
    written = sum(path.stat().st_size for path in store.iterdir())
    md5 = digest(store)
    np.testing.assert_allclose(sums_of(store, edges), sums, rtol=1e-9)
    shutil.rmtree(table)
    shutil.rmtree(store)
    processor, peak = use.ru_utime + use.ru_stime, use.ru_maxrss * 1024
    return (
        f"| {form} | {size / 1e9:.2f} GB | {written / 1e9:.2f} GB | {seconds:.1f} s | {processor:.1f} s | "
        f"{peak / 1e6:.0f} MB | {md5:.2f} s | {seconds / md5:.1f} × |"
    )


def main():
    parser = argparse.ArgumentParser(
        prog="imports.py", description="An import of part files beside the MD5 of its store."
    )
    parser.add_argument("--edges", type=int, default=100_000_000)
    parser.add_argument("--parts", type=int, default=64)
    parser.add_argument("--folder", help="where tables and stores are written (default: a temporary folder)")
    parser.add_argument("--weft", default="bin/weft")
    options = parser.parse_args()
    edges = options.edges // options.parts * options.parts
    print(f"{edges:,} edges with {len(COLUMNS)} columns, {options.parts} parts\n")
    print(
        "| parts | they have | store | time | of processors | memory at the peak | MD5 of the store | time ÷ "
        "MD5 |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="weft-imports-") as folder:
        for form in FORMS:
            print(
                imported(
                    pathlib.Path(options.weft).resolve(), form, edges, options.parts, pathlib.Path(folder)
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
