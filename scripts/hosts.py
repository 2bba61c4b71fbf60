#!/usr/bin/env python3
"""The demo's graph trained by one process and over several virtual hosts: equal bits, and what the network costs.

A host is a network namespace with a name of its own, joined to the others by a switch, and sends at most at the given
rate. mpirun runs on the first; it starts the ranks on the others as between machines, through a remote agent (this
script in place of ssh) and over TCP. What the hosts share is the file system, as machines may.

    hosts.py [--hosts N] [--rate 100mbit] [--epochs N]

Exit status: 0 where losses and predictions have the same bits, 1 where they differ or a run fails, 2 where nothing was
tried because hosts cannot be made here. The namespaces have no name outside this script. They last as long as the
processes in them, and these end with this script, however it ends. Standard library only; needs root, iproute2 and Open MPI.
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

NETWORK = "10.83.0"  # host K has the address NETWORK.K in a network that only the hosts see
HOLDERS = "WEFT_HOSTS"  # in the environment of the remote agent: for each host, a process in its namespaces
UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
GRACE = 20  # seconds that mpirun gets to end its ranks


class NotDone(Exception):
    """Why hosts cannot be made here."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--hosts", type=between(2, 64), default=4, metavar="N", help="2 to 64, a rank each (default 4)")
    parser.add_argument("--rate", type=rate, default="100mbit", help="at which a host sends, as in 1gbit (default 100mbit)")
    parser.add_argument("--epochs", type=between(1, 1000), default=20, metavar="N", help="1 to 1000 (default 20)")
    options = parser.parse_args()
    for ends in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ends, lambda number, _: sys.exit(128 + number))
    try:
        with contextlib.ExitStack() as stack:
            hosts = [stack.enter_context(namespaces(f"host{k}")) for k in range(1, options.hosts + 1)]
            connect(stack.enter_context(namespaces("switch")), hosts, options.rate)
            folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="weft-hosts-")))
            return compare(options, hosts, folder)
    except NotDone as reason:
        print(f"hosts: not done: {reason}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as failed:
        print(f"hosts: the run failed with status {failed.returncode}; it says why above", file=sys.stderr)
        return 1


def between(low, high):
    def number(text):
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {low} to {high}")
        return int(text)

    return number


def rate(text):
    """The text of a rate, as tc understands it, and its bits in a second."""
    match = re.fullmatch(r"(\d+)(kbit|mbit|gbit)", text)
    if not match or int(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no rate; write it as in 100mbit or 1gbit")
    return text, int(match[1]) * UNITS[match[2]]


@contextlib.contextmanager
def namespaces(name):
    """Network and host name of their own, as the process that holds them until its input ends, at the latest with this
    script."""
    if os.geteuid() != 0:
        raise NotDone("virtual hosts need root")
    command = ["unshare", "--net", "--uts", "sh", "-c", 'hostname "$0" && echo made && exec cat', name]
    pipe = subprocess.PIPE
    holder = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
    try:
        if holder.stdout.readline() != "made\n":
            raise NotDone(f"network namespaces are not allowed here ({last_line(holder.stderr.read())})")
        yield holder.pid
    finally:
        holder.communicate()


def inside(holder, *command):
    return ["nsenter", f"--target={holder}", "--net", "--uts", *command]


def connect(switch, hosts, rate):
    """Joins the hosts by a bridge in the switch's namespace."""

    def configure(holder, *command):
        done = subprocess.run(inside(holder, *command), capture_output=True, text=True)
        if done.returncode != 0:
            raise NotDone(f"{' '.join(command)}: {last_line(done.stderr)}")

    configure(switch, "ip", "link", "add", "bridge", "type", "bridge")
    configure(switch, "ip", "link", "set", "bridge", "up")
    for k, host in enumerate(hosts, 1):
        configure(host, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", f"port{k}", "netns", str(switch))
        configure(switch, "ip", "link", "set", f"port{k}", "master", "bridge", "up")
        configure(host, "ip", "address", "add", f"{NETWORK}.{k}/24", "dev", "eth0")
        configure(host, "ip", "link", "set", "lo", "up")
        configure(host, "ip", "link", "set", "eth0", "up")
        configure(host, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", rate[0], "burst", "128kb", "latency", "50ms")


def last_line(said):
    return (said.strip() or "no reason given").splitlines()[-1]


def compare(options, hosts, folder):
    """Trains in one process and over the hosts, and prints what came of it."""
    name, bits = options.rate
    addresses = [f"{NETWORK}.{k}" for k in range(1, len(hosts) + 1)]
    mpirun = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--host", ",".join(addresses), "-n", str(len(hosts))]
    for key, value in {"plm": "rsh", "plm_rsh_agent": f"{os.path.relpath(__file__)} agent", "btl": "self,tcp",
                       "btl_tcp_if_include": f"{NETWORK}.0/24", "oob_tcp_if_include": f"{NETWORK}.0/24"}.items():
        mpirun += ["--mca", key, value]
    places = {"in one process": [], f"over {len(hosts)} hosts": inside(hosts[0], *mpirun)}
    os.environ[HOLDERS] = json.dumps(dict(zip(addresses, hosts)))
    runs = {}
    for place, launcher in places.items():
        out = folder / place.replace(" ", "-")
        print(f"{options.epochs} epochs of debian with graph={len(hosts)} {place} …", file=sys.stderr, flush=True)
        summary = train([*launcher, "bin/weft", "train", "debian", "--config", "configs/debian-sage.yaml",
                         "--parallel", f"graph={len(hosts)}", "--threads", "1", "--epochs", str(options.epochs),
                         "--eval-every", str(options.epochs), "--json", "--out", str(out)])
        runs[place] = summary, (out / "predictions.npy").read_bytes()
    for place, (summary, _) in runs.items():
        print(f"{place:<16}{summary['epoch_seconds_median']:6.2f} s an epoch, of which a worker waits for others "
              f"{100 * summary['wait_share']:.0f} % at most")
    (one, predictions), (several, same_predictions) = runs.values()
    busiest = max(several["sent_bytes"])
    wire = 8 * busiest / bits
    print(f"{'on the wire':<16}{wire:6.2f} s for the {busiest / 1e6:.1f} MB of the busiest host at {name}: "
          f"an epoch over hosts takes {several['epoch_seconds_median'] / wire:.2f} times as long")
    differs = [what for what, equal in (("losses", one["losses"] == several["losses"]),
                                        ("predictions", predictions == same_predictions)) if not equal]
    if differs:
        print(f"different bits: {' and '.join(differs)}")
        return 1
    print(f"equal bits: the losses of {len(one['losses'])} epochs, and all predictions")
    return 0


def train(command):
    """The summary of a run. What else it says stays out of sight, but where it fails."""
    with tempfile.TemporaryFile("w+") as said:
        # Apart from the terminal: of an interrupt this script learns first, and ends the run, as it does however it ends.
        process = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", *command], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=said, text=True, start_new_session=True)
        try:
            summary, _ = process.communicate()
        except BaseException:
            process.terminate()
            try:
                process.communicate(timeout=GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
            raise
        if process.returncode != 0:
            said.seek(0)
            sys.stderr.write(said.read())
            raise subprocess.CalledProcessError(process.returncode, command)
    return json.loads(summary)


def agent(arguments):
    """Runs a command line on a host, as `ssh HOST COMMAND…` does."""
    holder = json.loads(os.environ[HOLDERS])[arguments[0]]
    command = inside(holder, "sh", "-c", " ".join(arguments[1:]))
    os.execvp(command[0], command)


if __name__ == "__main__":
    if sys.argv[1:2] == ["agent"]:
        agent(sys.argv[2:])
    sys.exit(main())
