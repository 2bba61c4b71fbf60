"""The script for a card, beside bin/libcuda-on-cpu.so: what it would meet there, it has met here."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "bin" / "libcuda-on-cpu.so"
HAS_NO_CARD = {
    "card",
    "PyTorch",
    "PyG",
    "NVRTC",
    "memcheck",
    "racecheck",
    "like products PyG",
    "like Reddit PyG",
}
CALLS = {
    "1": ["rates", "first", "conformance", "bits", "kernels"],
    "2": ["weights", "epochs", "pyg", "rmat", "papers"],
}

pytestmark = pytest.mark.skipif(
    not shutil.which("g++"), reason="there is no g++, which compiles libcuda-on-cpu.so"
)


@pytest.fixture
def check(tmp_path):
    """Runs the script on a kit with these programs: its status, its figures by step and part, and its
    table."""
    subprocess.run(["make", "-s", "-C", ROOT, "bin/libcuda-on-cpu.so"], check=True)

    def run(programs, *flags):
        (tmp_path / "kit" / "bin").mkdir(parents=True, exist_ok=True)
        for name, program in programs.items():
            (tmp_path / "kit" / "bin" / name).unlink(missing_ok=True)
            (tmp_path / "kit" / "bin" / name).symlink_to(program)
        command = [sys.executable, "-B", ROOT / "scripts/device/check.py", "--quick", *flags]
        command += ["--kit", tmp_path / "kit", "--out", tmp_path / "out"]
        done = subprocess.run(
            command, env=os.environ | {"WEFT_CUDA": str(LIBRARY)}, capture_output=True, text=True
        )
        figures = json.loads((tmp_path / "out" / "device.json").read_text())
        return done.returncode, figures, done.stdout

    return run


SMI = """#!/bin/sh
case "$*" in
*query-gpu*) echo '{line}' ;;
*) echo 'NVIDIA-SMI of {line}' ;;
esac
"""


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with a card of this name, capability, bytes and driver, as nvidia-smi and libcuda-on-cpu.so
    say."""

    def have(name, capability, memory, driver=13000, cards=1):
        smi = tmp_path / "smi" / "nvidia-smi"
        smi.parent.mkdir()
        smi.write_text(
            SMI.format(line=f"{name}, 580.65.06, {memory >> 20} MiB, 345 MHz, 2619 MHz, 1980 MHz, 700.00 W")
        )
        smi.chmod(0o755)
        monkeypatch.setenv("PATH", f"{smi.parent}:{os.environ['PATH']}")
        for setting, value in {
            "MEMORY": memory,
            "CAPABILITY": capability,
            "DRIVER": driver,
            "CARDS": cards,
        }.items():
            monkeypatch.setenv(f"ON_CPU_{setting}", str(value))

    return have


def programs():
    return {"weft": os.environ["WEFT_PROGRAM"], "kernel.test": ROOT / ".cache" / "kernel.test"}


def test_calls(check, machine):
    """Each call ends with a table of its steps alone, and adds its figures to those of the other one."""
    machine("NVIDIA A100-SXM4-80GB", 80, 80 << 30, cards=2)
    for call, steps in CALLS.items():
        status, figures, table = check(programs(), "--call", call)
        assert status == 0, table
        assert list(figures) == [step for group in CALLS.values() for step in group][: len(figures)]
        assert [*dict.fromkeys(line.split()[0] for line in table.splitlines() if line[0] != " ")] == steps
    assert len(figures) == 10
    assert figures["rates"]["card"]["text"].startswith("NVIDIA-SMI of NVIDIA A100-SXM4-80GB")
    assert [card["total_bytes"] for card in figures["first"]["weft doctor"]["cards"]] == [80 << 30] * 2


@pytest.mark.parametrize(
    "name, capability, memory, driver, message",
    [
        ("Tesla T4", 75, 16 << 30, 13000, "is of sm_75: needs 8.0, as A100 and RTX 30 have, or later"),
        ("NVIDIA A100-PCIE-40GB", 80, 40 << 30, 11040, "the driver is too old: it is one of CUDA 11.4"),
    ],
)
def test_other_machines(check, machine, name, capability, memory, driver, message):
    """A card that weft refuses: every part says why in a line, and the calls end."""
    machine(name, capability, memory, driver)
    for call, steps in CALLS.items():
        status, figures, table = check(programs(), "--call", call)
        assert status == 1, table
        for step in steps:
            for part, found in figures[step].items():
                if part == "texts":
                    assert message in found["the end"]
                    continue
                if part == "whole":
                    continue
                why = found.get("failed", found.get("skipped", ""))
                assert message in why or part in HAS_NO_CARD or step == "pyg" or part.startswith("github"), (
                    step,
                    part,
                    found,
                )


def test_quick(check, machine):
    machine("NVIDIA H100 80GB HBM3", 90, 80 << 30)
    steps = [*CALLS["1"], *CALLS["2"], "larger"]
    status, figures, table = check(programs(), "--only", ",".join(steps))
    assert status == 0, table
    parts = {step: set(by_part) for step, by_part in figures.items()}
    skipped = {
        (step, part)
        for step, parts_found in figures.items()
        for part, found in parts_found.items()
        if "skipped" in found
    }
    assert all(step == "pyg" or part in HAS_NO_CARD or part.startswith("github") for step, part in skipped)
    assert list(parts) == steps
    assert figures["conformance"]["whole"]["passed"] == 3 and not figures["conformance"]["whole"]["alone"]
    assert all(
        figures["bits"][f"graphs, {name}"]["device"]["graphs"]["launches"] for name in ("gcn", "sage", "gat")
    )
    assert {"two runs", "a resume", "gcn", "rgcn", "sage, graph=4"} < parts["bits"]
    assert all(found["apart"] < 1e-5 for found in figures["bits"].values() if "apart" in found)
    for precision in ("f32", "bf16"):
        found = figures["epochs"][f"uniform-15 sage {precision}"]
        assert len(found["losses"]) == 3 and found["device"]["peak_bytes"] > 0 and found["median"] > 0
    rests = {
        name: found for step in ("papers", "larger") for name, found in figures[step].items() if "RAM" in name
    }
    assert len(rests) == 4
    for found in rests.values():
        assert found["memory_limit"] < found["in_memory_bytes"] and found["device"]["ram"]["read"] > 0
        assert 0 <= found["beside_kernels"] <= 1 and found["times_bound"] > 0 and found["copies_seconds"] > 0
    assert figures["kernels"]["rmat"]["machine"]["card"] == "CPU in place of a GPU"
    assert {kernel["graph"] for kernel in figures["kernels"]["rmat"]["kernels"]} == {"rmat V=64 E=1024"}
    assert [line.split()[0] for line in table.splitlines() if line[0] != " "] == [
        step for step in parts for _ in parts[step]
    ]


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
    """What fails stops nothing else, and is told: tests that are not there, and losses a little off on the
    card."""
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
    assert all(
        "of the card" in found["skipped"]
        for part, found in figures["papers"].items()
        if part not in HAS_NO_CARD
    )


def test_time(check):
    status, figures, table = check(
        {"weft": os.environ["WEFT_PROGRAM"]}, "--only", "rmat,papers", "--limit", "0"
    )
    assert status == 0
    assert {found["skipped"] for results in figures.values() for found in results.values()} == {
        "no time is left"
    }


def test_sanitizer(check, machine, tmp_path):
    """A sanitizer that ends before the tests have ended has found nothing, and fails."""
    machine("NVIDIA H100 80GB HBM3", 90, 80 << 30)
    program = tmp_path / "smi" / "compute-sanitizer"
    for lines, memcheck in {
        'shift 4; exec "$@"': r"memcheck +\d+ pass, of",
        "echo Target application terminated; exit "
        "1": "memcheck +FAILED: it ended early: Target application terminated",
    }.items():
        program.write_text(f"#!/bin/sh\n{lines}\n")
        program.chmod(0o755)
        status, _, table = check(programs(), "--only", "conformance")
        assert re.search(memcheck, table), table
        assert status == ("FAILED" in memcheck)
