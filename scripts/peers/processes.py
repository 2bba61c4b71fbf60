"""Runs a process and measures it from outside."""

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

POLL_SECONDS = 0.05
GIB = 1 << 30


@dataclass
class Outcome:
    """status: the exit status, negative for a signal. peak_bytes: largest resident set. other_cores: the
    average number of cores that were busy with anything else, or taken by the hypervisor. stopped: why the
    process was ended from here, or empty."""

    status: int
    peak_bytes: int
    other_cores: float
    stopped: str


def run(
    command: list[str], environment: dict[str, str], output: Path, errors: Path, timeout: float, reserve: int
) -> Outcome:
    """Runs a command to its end. It is stopped after timeout seconds, or when the machine has fewer than
    reserve bytes left.

    The caller must be a small process: Linux counts the memory of the parent at the time of the fork as the
    child's."""
    busy, start = _busy_seconds(), time.monotonic()
    stopped = ""
    with output.open("wb") as out, errors.open("wb") as err:
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
    try:
        # Should the kernel run out of memory before this is noticed here, it is to end this process and no
        # other.
        Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if not stopped and time.monotonic() - start > timeout:
                stopped = f"stopped after {timeout:.0f} s"
            elif not stopped and _available_bytes() < reserve:
                stopped = f"out of memory: stopped at {_resident_bytes(process.pid) / GIB:.1f} GiB"
            if stopped:
                os.kill(process.pid, signal.SIGKILL)
            time.sleep(POLL_SECONDS)
    except BaseException:
        process.kill()
        process.wait()
        raise
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - start
    others = _busy_seconds() - busy - usage.ru_utime - usage.ru_stime
    return Outcome(process.returncode, usage.ru_maxrss * 1024, max(0.0, others / wall), stopped)


def environment(threads: int) -> dict[str, str]:
    """What the peers run under: as many threads as weft has, and no choice of a BLAS kernel left over from
    elsewhere."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("OPENBLAS_", "MKL_", "OMP_", "KMP_"))
    }
    return kept | {
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "CUDA_VISIBLE_DEVICES": "",
        "THP_MEM_ALLOC_ENABLE": "1",  # PyTorch asks for huge pages, as weft does
        "DGLBACKEND": "pytorch",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _busy_seconds() -> float:
    """Seconds that the machine's cores were not idle, time stolen by the hypervisor included."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = fields
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _available_bytes() -> int:
    return _kilobytes(Path("/proc/meminfo"), "MemAvailable:")


def _resident_bytes(pid: int) -> int:
    return _kilobytes(Path(f"/proc/{pid}/status"), "VmRSS:")


def _kilobytes(file: Path, key: str) -> int:
    for line in file.read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    return 0
