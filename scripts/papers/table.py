"""What a graph takes on a card, by its memory, from weft's plans: the table of docs/gpu.md. Run by papers.py
--table, and needs no card: bin/libcuda-on-cpu.so stands in for one. Standard library only."""

import functools
import json
import os
import pathlib
import subprocess
import tempfile

GRAPHS = {  # vertices, edges in both directions, features, classes
    "ogbn-arxiv": (169_343, 2_332_486, 128, 40),
    "Reddit": (232_965, 114_615_892, 602, 41),
    "ogbn-products": (2_449_029, 123_718_280, 100, 47),
    "a tenth of papers100M": (11_105_996, 323_137_174, 128, 172),
    "IGB-medium": (10_000_000, 240_155_388, 1024, 19),
    "ogbn-papers100M": (111_059_956, 3_231_371_744, 128, 172),
    "ten of papers100M": (1_110_599_560, 32_313_717_440, 128, 172),
}
CARDS = (8, 12, 24, 48, 80)  # GB
SEVERAL = (24, 80)  # GB of each of several cards
SPARED = 512 << 20  # that weft leaves to others, without a limit
MODEL = ("--model=sage", "--layers=3", "--hidden=256", "--norm=batch")
# In the order in which one tries them. The plan takes --recompute blocks where that is needed.
WHOLE = {"f32": (), "bf16": ("--precision=bf16",)}
PARTITIONS = (4, 8, 16, 32)
ROWS = (15_000, 30_000)  # of a partition of the random graphs from whose plans memory grows in proportion
# Of a card whose memory alone counts.
RATES = {"name": "card", "launch_seconds": 1e-6} | dict.fromkeys(
    (
        f"{rate}_per_second"
        for rate in ("copy_bytes", "flops", "bfloat16_flops", "to_device_bytes", "to_host_bytes")
    ),
    1e12,
)


def rows(weft, graphs=GRAPHS, cards=CARDS, several=SEVERAL):
    """The rows of the table, each as soon as it is known."""
    yield [
        "SAGE 3×256",
        *(f"all in {place}" for place in WHOLE),
        *(f"{gb} GB" for gb in cards),
        *(f"cards of {gb} GB" for gb in several),
    ]
    for name, counts in graphs.items():
        whole = [
            planned(weft, counts, 10**15, "--workers=1", "--recompute=none", *flags)
            for flags in WHOLE.values()
        ]

        def fits(gb, *flags, counts=counts):
            return planned(weft, counts, gb * 10**9, *flags) is not None

        def least(n, counts=counts):
            return of_partitions(weft, counts, n)

        yield [
            name,
            *map(size, whole),
            *(one_card(fits, least, gb) for gb in cards),
            *(how_many(fits, gb) for gb in several),
        ]


def one_card(fits, least, gb) -> str:
    """The first setting with which a graph fits a card: whole, or the number of its partitions."""
    for name, flags in WHOLE.items():
        if fits(gb, "--workers=1", *flags):
            return name
    return next((str(n) for n in PARTITIONS if least(n) <= gb * 10**9 - SPARED), "–")


def how_many(fits, gb) -> str:
    """The number of cards, one a worker on the graph axis, that hold a graph."""
    numbers = (2**k for k in range(11))
    return next(
        (str(n) for n in numbers if fits(gb, f"--workers={n}", *["--halo=rows"][: n > 1], *WHOLE["bf16"])),
        "–",
    )


def planned(weft, counts, memory, *flags) -> int | None:
    """The bytes that a graph takes of each card; None: it has too little memory."""
    with tempfile.NamedTemporaryFile("w") as rates:
        json.dump(RATES | {"memory_bytes": memory}, rates)
        rates.flush()
        sizes = (f"--{what}={n}" for what, n in zip(("vertices", "edges", "features", "classes"), counts))
        command = [weft, "plan", *sizes, *MODEL, *flags, f"--device-rates={rates.name}", "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 2 and "would need" in done.stderr:
        return None
    done.check_returncode()
    return json.loads(done.stdout)["meshes"][0]["card_bytes"]


def of_partitions(weft, counts, n) -> float:
    """The least bytes of a card with so many partitions that take turns."""
    vertices, edges, *columns = counts
    first, second = (of_random(weft, rows * n, round(edges / vertices, 1), *columns, n) for rows in ROWS)
    return first + (second - first) * (vertices / n - ROWS[0]) / (ROWS[1] - ROWS[0])


@functools.cache
def of_random(weft, vertices, degree, features, classes, n) -> int:
    """The least bytes of a card for a random graph."""
    with tempfile.TemporaryDirectory() as folder:
        store = pathlib.Path(folder) / "g"
        graph = (
            f"--vertices={vertices}",
            f"--degree={degree}",
            f"--features={features}",
            f"--classes={classes}",
            "--quiet",
        )
        subprocess.run([weft, "generate", "uniform", store, *graph], check=True, capture_output=True)
        turns = (
            *WHOLE["bf16"],
            f"--partitions={n}",
            "--partition=random",
            "--offload=ram",
            "--device=cuda",
            "--show-plan",
            "--json",
        )
        on = os.environ | {
            "WEFT_CUDA": str(pathlib.Path("bin/libcuda-on-cpu.so").resolve()),
            "ON_CPU_MEMORY": str(10**12),
        }
        done = subprocess.run([weft, "train", store, *MODEL, *turns], check=True, capture_output=True, env=on)
        return json.loads(done.stdout)["least_bytes"]


def size(n: int) -> str:
    return f"{n / 1e9:,.1f} GB" if n < 1e10 else f"{n / 1e9:,.0f} GB"
