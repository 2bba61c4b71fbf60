"""Runs of the program on files, with which those of the package are compared."""

import importlib.util
import json
import os
import subprocess

import numpy as np
import pytest

import weft

# An environment has some of them.
NEEDS = {
    "test_pandas.py": "pandas",
    "test_scikit_learn.py": "sklearn",
    "test_pyg.py": "torch_geometric",
    "test_links.py": "torch_geometric",
    "test_to_pyg.py": "torch_geometric",
    "test_module.py": "torch_geometric torch.export",
    "test_loss.py": "torch_geometric torch.export",
    "test_module_typed.py": "torch_geometric torch.export",
    "test_dgl.py": "dgl",
    "test_convolutions.py": "torch_geometric torch.export",
    "test_trace.py": "torch_geometric torch.export",
    "test_trace_random.py": "torch_geometric torch.export",
    "test_trace_dgl.py": "dgl",
    "test_trace_dgl_typed.py": "dgl",
}


def has(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # that which it is a part of
        return False


collect_ignore = [name for name, modules in NEEDS.items() if not all(map(has, modules.split()))]

BRIEF = {"epochs": 3, "hidden": 8, "checkpoint_every": 0}


@pytest.fixture(scope="session")
def program():
    """Runs the program with some arguments, which must succeed."""

    def run(*arguments):
        command = [os.environ["WEFT_PROGRAM"], *map(str, arguments)]
        p = subprocess.run(command, capture_output=True, text=True, check=False)
        assert p.returncode == 0, p.stderr

    return run


@pytest.fixture
def same(tmp_path, program):
    """Trains on a graph in memory and on its file, and compares what they leave, to the bit. Returns the run."""

    def compare(data, form, save, flags=(), **settings):
        settings = BRIEF | settings
        run = weft.train(data, out=tmp_path / "memory", progress=False, **settings)
        save(tmp_path / "file")
        program("import", form, *flags, tmp_path / "file", tmp_path / "store")
        given = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
        program("train", tmp_path / "store", "--out", tmp_path / "run", *given)
        other = json.loads((tmp_path / "run" / "run.json").read_text())["summary"]
        assert run.summary["graph"] == other["graph"]
        assert run.summary["losses"] == other["losses"]
        assert run.logits.tobytes() == np.load(tmp_path / "run" / "predictions.npy").tobytes()
        return run

    return compare
