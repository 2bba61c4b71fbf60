"""The script for a card, beside bin/libcuda-on-cpu.so: what it would meet there, it has met here."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "bin" / "libcuda-on-cpu.so"
HAS_NO_CARD = {"card", "PyTorch", "weights", "NVRTC", "memcheck", "racecheck"}

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="there is no g++, which compiles libcuda-on-cpu.so")


@pytest.fixture
def check(tmp_path):
    """Runs the script on a kit with these programs: its status, its figures by step and part, and its table."""
    subprocess.run(["make", "-s", "-C", ROOT, "bin/libcuda-on-cpu.so"], check=True)

    def run(programs, *flags):
        (tmp_path / "kit" / "bin").mkdir(parents=True)
        for name, program in programs.items():
            (tmp_path / "kit" / "bin" / name).symlink_to(program)
        command = [sys.executable, "-B", ROOT / "scripts/device/check.py", "--quick", *flags]
        command += ["--kit", tmp_path / "kit", "--out", tmp_path / "out"]
        done = subprocess.run(command, env=os.environ | {"WEFT_CUDA": str(LIBRARY)}, capture_output=True, text=True)
        figures = json.loads((tmp_path / "out" / "device.json").read_text())
        return done.returncode, figures, done.stdout

    return run


def test_quick(check):
    programs = {"weft": os.environ["WEFT_PROGRAM"], "kernel.test": ROOT / ".cache" / "kernel.test"}
    steps = ["rates", "first", "conformance", "bits", "epochs", "kernels", "pyg", "rmat", "papers", "larger"]
    status, figures, table = check(programs, "--only", ",".join(steps))
    assert status == 0, table
    parts = {step: set(of) for step, of in figures.items()}
    skipped = {(step, part) for step, of in figures.items() for part, found in of.items() if "skipped" in found}
    assert all(step == "pyg" or part in HAS_NO_CARD or part.startswith("github") for step, part in skipped)
    assert list(parts) == steps
    assert figures["conformance"]["whole"]["passed"] == 3 and not figures["conformance"]["whole"]["alone"]
    assert {"two runs", "a resume", "gcn", "rgcn", "sage, graph=4"} < parts["bits"]
    assert all(found["apart"] < 1e-5 for found in figures["bits"].values() if "apart" in found)
    for precision in ("f32", "bf16"):
        found = figures["epochs"][f"uniform-15 sage {precision}"]
        assert len(found["losses"]) == 3 and found["device"]["peak_bytes"] > 0 and found["median"] > 0
    rests = {name: found for step in ("papers", "larger") for name, found in figures[step].items() if "RAM" in name}
    assert len(rests) == 4
    for found in rests.values():
        assert found["memory_limit"] < found["in_memory_bytes"] and found["device"]["ram"]["read"] > 0
        assert 0 <= found["beside_kernels"] <= 1 and found["times_bound"] > 0 and found["copies_seconds"] > 0
    assert figures["kernels"]["rmat"]["machine"]["card"] == "CPU in place of a GPU"
    assert {kernel["graph"] for kernel in figures["kernels"]["rmat"]["kernels"]} == {"rmat V=64 E=1024"}
    assert [line.split()[0] for line in table.splitlines() if line[0] != " "] == [step for step in parts for _ in parts[step]]


OFF = """#!{python}
import json, subprocess, sys
said = subprocess.run(["{weft}", *sys.argv[1:]], stdout=subprocess.PIPE, check=True).stdout
if {{"train", "cuda", "--json"}} <= set(sys.argv):
    run = json.loads(said)
    run["losses"][-1] *= 1 + 1e-4
    said = json.dumps(run).encode()
sys.stdout.buffer.write(said)
"""


def test_failure(check, tmp_path):
    """What fails stops nothing else, and is told: tests that are not there, and losses a little off on the card."""
    weft = tmp_path / "weft"
    weft.write_text(OFF.format(python=sys.executable, weft=os.environ["WEFT_PROGRAM"]))
    weft.chmod(0o755)
    status, figures, table = check({"weft": weft}, "--only", "conformance,bits")
    assert status == 1
    assert "kernel.test" in figures["conformance"]["whole"]["failed"]
    assert figures["bits"]["gcn"]["failed"].startswith("1.0e-04 from the CPU's")
    assert "failed" not in figures["bits"]["two runs"]
    assert "FAILED" in table.splitlines()[0]


def test_small_card(check, monkeypatch):
    """What does not fit a card is skipped by its plan, with the reason."""
    monkeypatch.setenv("ON_CPU_MEMORY", "400000")
    status, figures, table = check({"weft": os.environ["WEFT_PROGRAM"]}, "--only", "papers")
    assert status == 0, table
    assert all("of the card" in found["skipped"] for found in figures["papers"].values())


def test_time(check):
    status, figures, table = check({"weft": os.environ["WEFT_PROGRAM"]}, "--only", "rmat,papers", "--limit", "0")
    assert status == 0
    assert {found["skipped"] for of in figures.values() for found in of.values()} == {"no time is left"}
