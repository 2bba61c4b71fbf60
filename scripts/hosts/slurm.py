"""A run that goes on from job to job under Slurm: requeue.sbatch on virtual nodes, beside one process that is
never interrupted. Run by `make slurm`.

    slurm.py [--epochs 300]

A node is a virtual host (network.py) with process ids and shared memory of its own. host1 has slurmctld, and
the others a slurmd each. Their configuration, key and state are in a temporary folder. Two nodes of three get
the job.

    time limit    jobs of two minutes, which Slurm signals ahead of the end. The first is cancelled and stays
                  away; the same command continues the run. Once more at the end, it says that the run has
                  ended.
    failures      a rank is killed. Then the node beside the batch script's loses its power, then the batch
                  script's own. Each time the job is requeued, on nodes that are left.

Losses, predictions and all of metrics.jsonl but the times must have the bits of the one process. Exit status:
0 where they do, 1 where something else comes of it, 2 where nothing was tried because nodes cannot be made
here. Standard library only; needs root, iproute2, Open MPI, and Debian's slurmctld, slurmd, slurm-client and
munge.
"""

import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from network import NotDone, Rate, address, between, command, inside, last_line, machines, result

TASKS, NODES = 2, 3  # of the job, and in all
RATE = "50mbit"  # so slow that 300 epochs need several jobs of two minutes
LONGEST = 900  # seconds; what takes longer is taken not to happen
ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED",
    "TIMEOUT",
}  # fmt: skip
# Process ids of its own: they all end with the first, and that with unshare. So does what is in memory, spool
# and all: of a step that is lost Slurm 22.05 keeps a socket there, and could not start one of the same number
# again.
APART = [
    "unshare",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "sh",
    "-c",
    'mount -t tmpfs tmpfs /dev/shm && mount -t tmpfs tmpfs "$0" && exec "$@"',
]
# A requeued job waits for cred_expire, and a lost node is found after SlurmdTimeout. Nothing uses control
# groups.
CONFIGURATION = """
ClusterName=weft
SlurmctldHost=host1({controller})
SlurmUser=root
AuthInfo=socket={folder}/munge,cred_expire=5
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdSpoolDir={folder}/tmp/spool
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdLogFile={folder}/slurmd-%n.log
TmpFS={folder}/tmp
ProctrackType=proctrack/linuxproc
SelectType=select/linear
SlurmdParameters=config_overrides
SchedulerParameters=bf_interval=2,sched_interval=2
SlurmdTimeout=60
ReturnToService=2
KillWait=10
MailProg=/bin/true
NodeName=DEFAULT CPUs={cores}
{nodes}
PartitionName=all Nodes=ALL Default=YES
"""


class Wrong(Exception):
    """What came of it instead."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--epochs", type=between(50, 10000), default=300, metavar="N", help="50 to 10000 (default 300)"
    )
    options = parser.parse_args()
    missing = [name for name in ("munged", "slurmctld", "slurmd", "sbatch") if not shutil.which(name)]
    if missing:
        raise NotDone(f"{', '.join(missing)}: not installed")
    os.environ["PATH"] = f"{pathlib.Path('bin').resolve()}:{os.environ['PATH']}"
    with tempfile.TemporaryDirectory(prefix="weft-slurm-") as name:
        folder = pathlib.Path(name)
        subprocess.run(
            ["weft", "generate", "sbm", folder / "store", "--vertices", "20000"],
            check=True,
            capture_output=True,
            text=True,
        )
        flags = ["--epochs", str(options.epochs), "--checkpoint-every", "10", "--threads", "1"]
        log(f"{options.epochs} epochs in one process")
        result(
            [
                "weft",
                "train",
                folder / "store",
                "--out",
                folder / "whole",
                "--parallel",
                f"graph={TASKS}",
                "--json",
                *flags,
            ]
        )
        try:
            with Cluster(folder) as cluster:
                time_limit(cluster, Run(folder / "time-limit", flags))
                failures(cluster, Run(folder / "failures", [*flags, "--comm-timeout", "20s"]))
            for run in ("time-limit", "failures"):
                compare(folder / "whole", folder / run)
        except Wrong as wrong:
            print(f"slurm: {wrong}", file=sys.stderr)
            return 1
    return 0


def log(line):
    print(f"{time.strftime('%T')}  {line}", file=sys.stderr, flush=True)


class Run:
    """A run, as the arguments of requeue.sbatch name it."""

    def __init__(self, path, flags):
        self.path, self.arguments = path, [path.parent / "store", path, *flags]

    def checkpoint(self):
        return max((entry.name for entry in self.path.glob("checkpoints/epoch-*")), default="")

    def gets_on(self):
        """Waits for another checkpoint."""
        before = self.checkpoint()
        wait(lambda: self.checkpoint() > before, "a checkpoint")


def time_limit(cluster, run):
    limit = [
        "--time=2",
        "--signal=USR1@75",
    ]  # Slurm looks every 30 seconds, and signals up to 60 seconds early
    job = Job(cluster, run, *limit)
    run.gets_on()
    log("scancel")
    cluster.slurm("scancel", job.id)
    job.ends("CANCELLED")
    job = Job(cluster, run, *limit)
    job.ends("COMPLETED")
    if job.restarts < 2:
        raise Wrong(f"the run ended after {job.restarts} restarts: give more --epochs")
    again = Job(cluster, run)
    again.ends("COMPLETED")
    if "the run has ended" not in again.output.read_text():
        raise Wrong(f"job {again.id} does not say that the run has ended")


def failures(cluster, run):
    job = Job(cluster, run)
    run.gets_on()
    log("kill -9 of a rank")
    cluster.kill_rank(job.nodes[-1])
    job.starts_again()
    run.gets_on()
    node = job.nodes[-1]
    log(f"{node} loses its power")
    cluster.power_off(node)
    job.starts_again()
    log(f"{node} is back")
    cluster.power_on(node)
    run.gets_on()
    log(f"{job.nodes[0]}, where the batch script runs, loses its power")
    cluster.power_off(job.nodes[0])
    job.starts_again()
    job.ends("COMPLETED")


def compare(whole, run):
    """Compares the results of a run with those of the one process."""

    def losses(path):
        return json.loads((path / "run.json").read_text())["summary"]["losses"]

    def lines(path):
        return [
            json.loads(line) | {"seconds": None} for line in (path / "metrics.jsonl").read_text().splitlines()
        ]

    def predictions(path):
        return (path / "predictions.npy").read_bytes()

    differs = [what.__name__ for what in (losses, lines, predictions) if what(whole) != what(run)]
    if differs:
        raise Wrong(f"{run.name}: different bits: {' and '.join(differs)}")
    print(
        f"{run.name}: equal bits: the losses of {len(losses(run))} epochs, the lines of metrics.jsonl, and "
        "all predictions",
        flush=True,
    )


def wait(condition, what):
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > LONGEST:
            raise Wrong(f"no sign of {what} in {LONGEST} seconds")
        time.sleep(0.2)


class Job:
    """A job of requeue.sbatch. Whoever waits for it hears of its states."""

    def __init__(self, cluster, run, *options):
        self.cluster, self.run, self.output = cluster, run, run.path.with_suffix(".out")
        script = pathlib.Path(__file__).with_name("requeue.sbatch")
        self.id = cluster.slurm(
            "sbatch",
            "--parsable",
            f"--nodes={TASKS}",
            "--cpus-per-task=1",
            f"--output={self.output}",
            *options,
            script,
            *run.arguments,
        ).strip()
        self.told, self.restarts, self.nodes = None, 0, []
        wait(self.runs, f"job {self.id}")

    def state(self):
        shown = dict(
            re.findall(r"(\S+?)=(\S*)", self.cluster.slurm("scontrol", "show", "job", "--oneliner", self.id))
        )
        self.restarts, nodes = int(shown["Restarts"]), shown["NodeList"]
        self.nodes = (
            self.cluster.slurm("scontrol", "show", "hostnames", nodes).split()
            if nodes.startswith("host")
            else []
        )
        told = " ".join([f"job {self.id}, restart {self.restarts}: {shown['JobState']}", *self.nodes])
        if told != self.told:
            log(f"{told} ({self.run.checkpoint() or 'no checkpoint'})")
            self.told = told
        return shown["JobState"]

    def runs(self):
        state = self.state()
        if state in ENDED:
            raise Wrong(f"job {self.id} is {state}:\n{self.output.read_text()}")
        return state == "RUNNING"

    def starts_again(self):
        restarts = self.restarts
        wait(lambda: self.runs() and self.restarts > restarts, "a restart")

    def ends(self, state):
        wait(lambda: self.state() in ENDED, f"the end of job {self.id}")
        if (is_now := self.state()) != state:
            raise Wrong(f"job {self.id} is {is_now}, not {state}:\n{self.output.read_text()}")


class Cluster(contextlib.ExitStack):
    """Slurm on virtual nodes. Its daemons, and what they started, end with this script however that ends."""

    def __init__(self, folder):
        super().__init__()
        self.folder, self.daemons = folder, {}
        self.controller, *holders = self.enter_context(machines(1 + NODES, Rate(RATE)))
        self.holders = {f"host{k}": holder for k, holder in enumerate(holders, 2)}
        try:
            self.configure()
            munge = [
                f"--{name}={folder}/munge{suffix}"
                for name, suffix in (
                    ("key-file", ".key"),
                    ("socket", ""),
                    ("pid-file", ".pid"),
                    ("log-file", ".log"),
                    ("seed-file", ".seed"),
                )
            ]
            self.start("munged", "munged", "--foreground", "--force", *munge)
            self.start("slurmctld", *inside(self.controller, *APART, self.folder / "tmp", "slurmctld", "-D"))
            for name in self.holders:
                self.power_on(name)
            wait(lambda: self.ready(*self.holders), "Slurm's nodes")
        except BaseException:
            self.close()
            raise

    def configure(self):
        folder, nodes = self.folder, []
        for k, name in enumerate(self.holders, 2):
            nodes.append(f"NodeName={name} NodeAddr={address(k)}")
        for name in ("state", "tmp"):
            (folder / name).mkdir()
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o400)
        (folder / "cgroup.conf").write_text(
            "CgroupPlugin=cgroup/v1\n"
        )  # without a name slurmd looks for one, and may fail
        os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
        (folder / "slurm.conf").write_text(
            CONFIGURATION.format(
                folder=folder, controller=address(1), cores=os.cpu_count(), nodes="\n".join(nodes)
            )
        )

    def start(self, name, *arguments):
        with open(self.folder / f"{name}.said", "ab") as log_file:
            self.daemons[name] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=log_file,
                start_new_session=True,
            )
        self.callback(self.stop, name)

    def stop(self, name):
        self.daemons[name].kill()
        self.daemons[name].wait()

    def power_on(self, name):
        self.network(name, "up")
        self.start(name, *inside(self.holders[name], *APART, self.folder / "tmp", "slurmd", "-D"))

    def power_off(self, name):
        """Ends all processes of a node at once. The others hear nothing of that."""
        self.network(name, "down")
        self.stop(name)

    def network(self, name, state):
        subprocess.run(
            inside(self.holders[name], "ip", "link", "set", "eth0", state),
            check=True,
            capture_output=True,
            text=True,
        )

    def kill_rank(self, name):
        (rank,) = (pid for pid in descendants(self.daemons[name].pid) if program(pid) == "weft")
        os.kill(rank, signal.SIGKILL)

    def ready(self, *names):
        for name, daemon in self.daemons.items():
            if daemon.poll() is not None:
                raise NotDone(f"{name} ended: {last_line((self.folder / f'{name}.said').read_text())}")
        try:
            return all(
                state == "idle"
                for state in self.slurm(
                    "sinfo", "--noheader", "--Node", "--format=%T", f"--nodes={','.join(names)}"
                ).split()
            )
        except subprocess.CalledProcessError:
            return False

    def slurm(self, *arguments):
        return subprocess.run(
            inside(self.controller, *arguments), check=True, capture_output=True, text=True
        ).stdout


def descendants(pid):
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError):
            for child in map(int, task.read_text().split()):
                yield child
                yield from descendants(child)


def program(pid):
    with contextlib.suppress(FileNotFoundError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()


if __name__ == "__main__":
    command(main)
