"""Runs of the program on files, with which those of the package are compared."""

import importlib.util
import json
import os
import subprocess

import numpy as np
import pytest

import weft

# What these files need, of which an environment has some.
NEEDS = {
    "test_pandas.py": "pandas",
    "test_tables.py": "pandas",
    "test_scikit_learn.py": "sklearn",
    "test_model_card.py": "sklearn scipy",
    "test_pyg.py": "torch_geometric",
    "test_links.py": "torch_geometric",
    "test_to_pyg.py": "torch_geometric",
    "test_to_pyg_types.py": "torch_geometric",
    "test_module.py": "torch_geometric torch.export",
    "test_graphs.py": "torch_geometric torch.export",
    "test_graph_loops.py": "torch_geometric torch.export",
    "test_loops.py": "torch_geometric torch.export",
    "test_loops_card.py": "torch_geometric torch.export",
    "test_loop_plans.py": "torch_geometric torch.export",
    "test_passes.py": "torch_geometric torch.export",
    "test_compile.py": "torch_geometric torch.export",
    "test_endings.py": "torch_geometric torch.export",
    "test_loops_typed.py": "torch_geometric torch.export",
    "test_processes.py": "torch_geometric torch.export",
    "test_process_graphs.py": "torch_geometric torch.export",
    "test_samples.py": "torch_geometric torch.export",
    "test_rows.py": "torch_geometric torch.export",
    "test_loop_edges.py": "torch_geometric torch.export",
    "test_around.py": "torch_geometric torch.export",
    "test_loss.py": "torch_geometric torch.export",
    "test_module_typed.py": "torch_geometric torch.export",
    "test_explain.py": "torch_geometric torch.export",
    "test_explain_edges.py": "torch_geometric torch.export",
    "test_dgl.py": "dgl",
    "test_dgl_graphs.py": "dgl",
    "test_convolutions.py": "torch_geometric torch.export",
    "test_trace.py": "torch_geometric torch.export",
    "test_trace_modules.py": "torch_geometric torch.export",
    "test_trace_refusals.py": "torch_geometric torch.export",
    "test_edge_labels.py": "torch_geometric torch.export",
    "test_edge_sets.py": "torch_geometric torch.export",
    "test_edge_states.py": "torch_geometric torch.export",
    "test_card.py": "torch_geometric torch.export",
    "test_forms.py": "torch_geometric torch.export",
    "test_sparse.py": "torch_geometric torch.export",
    "test_edge_outputs.py": "torch_geometric torch.export",
    "test_chance.py": "torch_geometric torch.export",
    "test_idioms.py": "torch_geometric torch.export",
    "test_special.py": "torch_geometric torch.export",
    "test_unread.py": "torch_geometric torch.export",
    "test_softmax_aggregation.py": "torch_geometric torch.export",
    "test_trace_random.py": "torch_geometric torch.export",
    "test_trace_dgl.py": "dgl",
    "test_trace_dgl_typed.py": "dgl",
}


def has(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # that which it is a part of
        return False


class Lacking(pytest.Module):
    """A file that needs what the environment lacks: it is skipped by its name."""

    def collect(self):
        lacks = [module for module in NEEDS[self.path.name].split() if not has(module)]
        pytest.skip(f"there is no {' and no '.join(lacks)}", allow_module_level=True)


def pytest_pycollect_makemodule(module_path, parent):
    if not all(map(has, NEEDS.get(module_path.name, "").split())):
        return Lacking.from_parent(parent, path=module_path)


BRIEF = {"epochs": 3, "hidden": 8, "checkpoint_every": 0}


@pytest.fixture(scope="session")
def program():
    """Runs the program with some arguments, which must succeed, and returns its output."""

    def run(*arguments):
        command = [os.environ["WEFT_PROGRAM"], *map(str, arguments)]
        p = subprocess.run(command, capture_output=True, text=True, check=False)
        assert p.returncode == 0, p.stderr
        return p.stdout

    return run


@pytest.fixture
def same(tmp_path, program):
    """Trains on a graph in memory and on its file, and compares what they leave, to the bit. Returns the
    run."""

    def compare(data, form, save, flags=(), **settings):
        settings = BRIEF | settings
        run = weft.train(data, out=tmp_path / "memory", progress=False, **settings)
        save(tmp_path / "file")
        program("import", form, *flags, tmp_path / "file", tmp_path / "store")
        options = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
        program("train", tmp_path / "store", "--out", tmp_path / "run", *options)
        other = json.loads((tmp_path / "run" / "run.json").read_text())["summary"]
        assert run.summary["graph"] == other["graph"]
        assert run.summary["losses"] == other["losses"]
        assert run.logits.tobytes() == np.load(tmp_path / "run" / "predictions.npy").tobytes()
        return run

    return compare


@pytest.fixture
def in_double(monkeypatch):
    """PyTorch's numbers are of float64, and the same in each test."""
    import torch
    import torch_geometric

    torch.manual_seed(0)
    monkeypatch.setattr(
        torch_geometric.backend, "use_segment_matmul", False
    )  # RGCNConv chooses by the counts of edges
    kept = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(kept)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, program):
    """Runs on graphs, by the graph and flags."""
    from to_pyg_runs import Trained

    return Trained(tmp_path_factory.mktemp("runs"), program)
