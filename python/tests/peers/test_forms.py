"""PyG's models as they are timed on a card: each form of what they take for a graph computes the same, and
weft what they do."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[3] / "scripts"

sys.path[:0] = [str(SCRIPTS / "peers")]
MODELS = importlib.import_module("models").MODELS
FORMS = ["EdgeIndex", "csr", "edge_index"]


def test_forms(tmp_path, program):
    store = tmp_path / "store"
    program("generate", "uniform", "--vertices", 120, "--degree", 5, "--features", 16, "--classes", 4, store)

    def pytorch(*arguments):
        command = [sys.executable, "-B", SCRIPTS / "device" / "pytorch.py", *arguments]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    pytorch("weights", 16, 4, tmp_path)
    rows = pytorch("train", store, tmp_path, 3, "cpu", ",".join(FORMS), ",".join(MODELS))
    for name, model in MODELS.items():
        flags = [
            *model.weft_flags(),
            "--epochs",
            3,
            "--eval-every",
            3,
            "--init",
            tmp_path / f"{name}.safetensors",
        ]
        losses = json.loads(program("train", store, *flags, "--json", "--out", tmp_path / name))["losses"]
        by_form = {row["form"]: row for row in rows if row["model"] == name and row["precision"] == "f32"}
        assert list(by_form) == [form for form in FORMS if (form, name) != ("csr", "gat")]
        for form, row in by_form.items():
            assert row["losses"] == pytest.approx(losses, rel=1e-4), (name, form)
        for precision, close in (("tf32", 1e-4), ("bf16", 0.2)):
            others = [
                row
                for row in rows
                if row["model"] == name and row["precision"] == precision and "failed" not in row
            ]
            assert len(others) == 1 and others[0]["form"] in by_form
            assert others[0]["losses"] == pytest.approx(losses, rel=close)
