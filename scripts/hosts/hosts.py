"""The demo's graph trained by one process and over several virtual hosts, along each axis: equal bits, and
what the network costs. network.py says what a host is.

    hosts.py [--hosts N] [--rate 100mbit] [--epochs N] [--axes graph,tensor]

Exit status: 0 where losses and predictions have the same bits, 1 where they differ or a run fails, 2 where
nothing was tried because hosts cannot be made here. Standard library only; needs root, iproute2 and Open MPI.
"""

import argparse
import pathlib
import sys
import tempfile

from network import Rate, between, command, hosts, result

AXES = ("graph", "tensor")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--hosts", type=between(2, 64), default=4, metavar="N", help="2 to 64, a rank each (default 4)"
    )
    parser.add_argument(
        "--rate", type=Rate, default="100mbit", help="at which a host sends, as in 1gbit (default 100mbit)"
    )
    parser.add_argument(
        "--epochs", type=between(1, 1000), default=20, metavar="N", help="1 to 1000 (default 20)"
    )
    parser.add_argument(
        "--axes", type=axes, default=AXES, help="those to divide the work along (default graph,tensor)"
    )
    options = parser.parse_args()
    with (
        hosts(options.hosts, options.rate) as launcher,
        tempfile.TemporaryDirectory(prefix="weft-hosts-") as folder,
    ):
        return max(
            [compare(axis, options, launcher(options.hosts), pathlib.Path(folder)) for axis in options.axes]
        )


def axes(text):
    names = text.split(",")
    if not set(names) <= set(AXES):
        raise argparse.ArgumentTypeError(f"{text!r}: the axes are {' and '.join(AXES)}, as in graph,tensor")
    return names


def compare(axis, options, launcher, folder):
    """Trains in one process and over the hosts, and prints what came of it."""
    n, mesh = options.hosts, f"{axis}={options.hosts}"
    runs = {}
    for place, prefix in {"in one process": [], f"over {n} hosts": launcher}.items():
        out = folder / f"{axis} {place}".replace(" ", "-")
        print(f"{options.epochs} epochs of debian with {mesh} {place} …", file=sys.stderr, flush=True)
        summary = result(
            [
                *prefix,
                "bin/weft",
                "train",
                "debian",
                "--config",
                "configs/debian-sage.yaml",
                "--parallel",
                mesh,
                "--threads",
                "1",
                "--epochs",
                str(options.epochs),
                "--eval-every",
                str(options.epochs),
                "--json",
                "--out",
                str(out),
            ]
        )
        runs[place] = summary, (out / "predictions.npy").read_bytes()
    print(mesh)
    for place, (summary, _) in runs.items():
        print(
            f"  {place:<16}{summary['epoch_seconds_median']:6.2f} s an epoch, of which a worker waits for "
            f"others {100 * summary['wait_share']:.0f} % at most"
        )
    (one, predictions), (several, same_predictions) = runs.values()
    busiest = max(several["sent_bytes"])
    wire = options.rate.seconds(busiest)
    print(
        f"  {'on the wire':<16}{wire:6.2f} s for the {busiest / 1e6:.1f} MB of the busiest host at "
        f"{options.rate.text}: an epoch over hosts takes {several['epoch_seconds_median'] / wire:.2f} times "
        "as long"
    )
    differs = [
        what
        for what, equal in (
            ("losses", one["losses"] == several["losses"]),
            ("predictions", predictions == same_predictions),
        )
        if not equal
    ]
    if differs:
        print(f"  different bits: {' and '.join(differs)}")
        return 1
    print(f"  equal bits: the losses of {len(one['losses'])} epochs, and all predictions")
    return 0


if __name__ == "__main__":
    command(main)
