#!/usr/bin/env python3
"""Virtual hosts on one machine, for the commands beside this file.

A host is a network namespace with a name of its own, joined to the others by a switch, and sends at most at
the given rate. mpirun runs on the first; it starts the ranks on the others as between machines, through a
remote agent (this file in place of ssh) and over TCP. What the hosts share is the file system, as machines
may.

The namespaces have no name outside. They last as long as the processes in them, and these end with the script
that made them, however it ends. Standard library only; needs root, iproute2 and Open MPI."""

import argparse
import contextlib
import json
import os
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


def command(main):
    """Runs a script that uses hosts. Its exit status is main's; 1 where a run fails, 2 where nothing was
    tried because hosts cannot be made here."""
    for ends in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ends, lambda number, _: sys.exit(128 + number))
    name = os.path.basename(sys.argv[0]).removesuffix(".py")
    try:
        sys.exit(main())
    except NotDone as reason:
        print(f"{name}: not done: {reason}", file=sys.stderr)
        sys.exit(2)
    except subprocess.CalledProcessError as failed:
        sys.stderr.write(failed.stderr)
        print(f"{name}: the run failed with status {failed.returncode}; it says why above", file=sys.stderr)
        sys.exit(1)


def between(low, high):
    def number(text):
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {low} to {high}")
        return int(text)

    return number


class Rate:
    """A rate at which hosts send: its text, as tc understands it, and its bits in a second."""

    def __init__(self, text):
        match = re.fullmatch(r"(\d+)(kbit|mbit|gbit)", text)
        if not match or int(match[1]) == 0:
            raise argparse.ArgumentTypeError(f"{text!r} is no rate; write it as in 100mbit or 1gbit")
        self.text, self.bits = text, int(match[1]) * UNITS[match[2]]

    def seconds(self, sent_bytes):
        """How long the bytes of one host take on the wire."""
        return 8 * sent_bytes / self.bits


@contextlib.contextmanager
def hosts(n, rate):
    """n hosts, as a function: the command that starts a rank on each of so many of them."""
    with machines(n, rate) as holders:
        addresses = [address(k) for k in range(1, n + 1)]
        os.environ[HOLDERS] = json.dumps(dict(zip(addresses, holders)))
        yield lambda ranks: inside(holders[0], *mpirun(addresses[:ranks]))


@contextlib.contextmanager
def machines(n, rate):
    """n hosts, as the processes that hold their namespaces. host1 is the first."""
    with contextlib.ExitStack() as stack:
        holders = [stack.enter_context(namespaces(f"host{k}")) for k in range(1, n + 1)]
        connect(stack.enter_context(namespaces("switch")), holders, rate)
        yield holders


def address(k):
    return f"{NETWORK}.{k}"


def mpirun(addresses):
    command = [
        "mpirun",
        "--allow-run-as-root",
        "--bind-to",
        "none",
        "--host",
        ",".join(addresses),
        "-n",
        str(len(addresses)),
    ]
    for key, value in {
        "plm": "rsh",
        "plm_rsh_agent": f"{os.path.relpath(__file__)} agent",
        "btl": "self,tcp",
        "btl_tcp_if_include": f"{NETWORK}.0/24",
        "oob_tcp_if_include": f"{NETWORK}.0/24",
    }.items():
        command += ["--mca", key, value]
    return command


@contextlib.contextmanager
def namespaces(name):
    """Network and host name of their own, as the process that holds them until its input ends, at the latest
    with this script."""
    if os.geteuid() != 0:
        raise NotDone("virtual hosts need root")
    command = ["unshare", "--net", "--uts", "sh", "-c", 'hostname "$0" && echo made && exec cat', name]
    pipe = subprocess.PIPE
    holder = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
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
        configure(
            host,
            "ip",
            "link",
            "add",
            "eth0",
            "type",
            "veth",
            "peer",
            "name",
            f"port{k}",
            "netns",
            str(switch),
        )
        configure(switch, "ip", "link", "set", f"port{k}", "master", "bridge", "up")
        configure(host, "ip", "address", "add", f"{address(k)}/24", "dev", "eth0")
        configure(host, "ip", "link", "set", "lo", "up")
        configure(host, "ip", "link", "set", "eth0", "up")
        configure(
            host,
            "tc",
            "qdisc",
            "add",
            "dev",
            "eth0",
            "root",
            "tbf",
            "rate",
            rate.text,
            "burst",
            "128kb",
            "latency",
            "50ms",
        )


def last_line(stderr):
    return (stderr.strip() or "no reason given").splitlines()[-1]


def result(command):
    """The object that a command prints with --json. What else it says stays out of sight; where it fails the
    error has it."""
    with tempfile.TemporaryFile("w+") as stderr:
        # Apart from the terminal: of an interrupt this script learns first, and ends the run, as it does
        # however it ends.
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
        try:
            printed, _ = process.communicate()
        except BaseException:
            process.terminate()
            try:
                process.communicate(timeout=GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
            raise
        if process.returncode != 0:
            stderr.seek(0)
            raise subprocess.CalledProcessError(process.returncode, command, stderr=stderr.read())
    return json.loads(printed)


def agent(arguments):
    """Runs a command line on a host, as `ssh HOST COMMAND…` does."""
    holder = json.loads(os.environ[HOLDERS])[arguments[0]]
    command = inside(holder, "sh", "-c", " ".join(arguments[1:]))
    os.execvp(command[0], command)


if __name__ == "__main__" and sys.argv[1:2] == ["agent"]:
    agent(sys.argv[2:])
