"""Modules as their authors write them: each trains as in PyTorch, in float64, or is refused by its line. None
in silence.

What a training is given, the program and its initial weights, is stepped by the interpreter of the tests
beside the module.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import json
import random
import re
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as g
from idioms import CLASSES, TRAIN, WIDTH, E, Net, OnlyTraining, V, closure_of, set_
from idioms_refused import REFUSED
from interpreter import Interpreter
from torch import nn
from torch_geometric.data import Batch, Data

import weft
from weft import _module, _weights
from weft._copies import copied
from weft._library import is_library
from weft._scratch import Scratch
from weft._trace import trace


def test_a_hundred():
    assert len(TRAIN) + len(REFUSED) >= 100


@pytest.fixture(scope="module")
def data():
    random = torch.Generator().manual_seed(3)
    edges = torch.randint(V - 2, (2, E), generator=random)
    return {"edge_index": edges, "x": torch.randn(V, WIDTH, generator=random), "y": torch.arange(V) % CLASSES}


@pytest.fixture(scope="module")
def graph(data):
    return weft.Graph(**data)


@contextlib.contextmanager
def in_program(module, graph, **settings):
    """The program that a training of a module is given, and the weights that it begins with."""
    scratch = Scratch()
    try:
        made, _ = _module.in_place({"model": module, **settings}, [str(graph.store)], scratch)
        yield (
            made["program"].read_text(),
            {k: torch.from_numpy(v) for k, v in _weights.read(made["init"]).items()},
        )
    finally:
        scratch.close()


class Steps(Interpreter):
    """The interpreter, with tables."""

    def table(self, name):
        return "vertices", self.parameters[name]


def curve(parameters, logits_of, y):
    """The losses of six steps of SGD with momentum and weight decay, as PyTorch's optimizer makes them, and
    the logits then."""
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.5, weight_decay=0.1)
    losses = []
    for _ in range(6):
        optimizer.zero_grad()
        loss = F.cross_entropy(logits_of(), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def called(module, data):
    x, e = data["x"].double(), data["edge_index"]
    return lambda: module(Data(x=x, edge_index=e)) if isinstance(module, OnlyTraining) else module(x, e)


@pytest.mark.parametrize("name", TRAIN)
def test_trains(name, data, graph):
    torch.manual_seed(4)
    module = TRAIN[name]()
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
    with in_program(module, graph) as (text, state):
        assert before == (
            random.getstate(),
            np.random.get_state()[1].tolist(),
            torch.get_rng_state().tolist(),
        )
        lazy = any(map(nn.parameter.is_lazy, module.parameters()))
        if lazy:
            called(module.double(), data)()
        own = copied(module).double().train()
        trained = {p["name"] for p in json.loads(text)["parameters"] if p["trained"]}
        state = dict(own.state_dict()) if lazy else state
        weights = {k: v.detach().clone().double().requires_grad_(k in trained) for k, v in state.items()}
        program, x = Steps(text), data["x"].double()
        ours = curve(
            [weights[k] for k in trained], lambda: program(weights, x, data["edge_index"]), data["y"]
        )
        theirs = curve(own.parameters(), called(own, data), data["y"])
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


@pytest.mark.parametrize("name", REFUSED)
def test_is_refused(name, graph):
    make, words = REFUSED[name]
    torch.manual_seed(4)
    with pytest.raises(weft.Refused) as refused, in_program(make(), graph):
        pass
    message = re.sub(
        r'"[^"]*": \(lambda: .*\),: ', "", str(refused.value)
    )  # without the line above that has the words
    assert re.search(words, message) and message.startswith("model: ") and "\n" not in message


class OfBatch(Net):
    def forward(self, x, edge_index, batch=None):
        return self.out(self.norm(self.into(x), batch))


class OfData(Net):
    def forward(self, data):
        return self.out(self.norm(self.into(data.x), data.batch))


def normed(kind):
    return kind(None, set_("norm", lambda: g.GraphNorm(5)))


@pytest.mark.parametrize("kind", [OfBatch, OfData])
@pytest.mark.parametrize("as_batch", [False, True])
def test_several_graphs(kind, as_batch, data):
    """Of several graphs a forward that asks which a vertex is of is refused, and one that does not is not."""
    one = Data(**data)
    graphs = weft.Graph.of(Batch.from_data_list([one, one]) if as_batch else [one, one])
    with (
        pytest.raises(weft.Refused, match="forward (takes|reads) batch, and the data are several graphs"),
        in_program(normed(kind), graphs),
    ):
        pass
    with in_program(normed(kind), weft.Graph.of(one)):
        pass
    with in_program(Net(lambda s, h, e: h @ s.w), graphs):
        pass


class OfEdges(Net):
    def forward(self, x, edge_index, edge_attr):
        messages = self.into(x)[edge_index[0]] * self.idiom(edge_attr)
        return self.out(x.new_zeros(x.size(0), 5).index_add(0, edge_index[1], messages))


def test_edge_attr_of_one_dimension(data):
    """edge_attr of one dimension comes as E × 1: what would make E × E of it says so."""
    graph = weft.Graph(**data, edge_attr=torch.rand(E))
    with (
        pytest.raises(weft.Refused, match=r"each pair of edges meets, E × E: .*view\(-1, 1\)"),
        in_program(OfEdges(lambda w: w.unsqueeze(-1)), graph),
    ):
        pass
    with in_program(OfEdges(lambda w: w.view(-1, 1)), graph):
        pass


def test_rate_of_0(graph):
    module = Net(lambda s, h, e: h @ s.w)
    with (
        pytest.raises(weft.Refused, match="optimizer: its lr is 0"),
        in_program(module, graph, optimizer=torch.optim.SGD(module.parameters(), lr=0)),
    ):
        pass


def test_lazy_statistics():
    """The call that gives lazy layers their sizes leaves statistics, and what is in training or evaluation,
    as they were."""
    torch.manual_seed(4)
    module = Net(lambda s, h, e: s.norm(s.layer(h)), set_("layer", lambda: nn.LazyLinear(5, bias=True)))
    module.norm = nn.Sequential(nn.LazyBatchNorm1d(), nn.BatchNorm1d(5).eval())
    state = trace(module, features=WIDTH).state
    for k in range(2):
        np.testing.assert_array_equal(state[f"norm.{k}.running_mean"], np.zeros(5))
        np.testing.assert_array_equal(state[f"norm.{k}.running_var"], np.ones(5))
    assert module.norm.training and not module.norm[1].training


def stray(path):
    """A module of a file of the user's own below a folder that is called as a library."""
    (path / "weft" / "torch").mkdir(parents=True)
    (path / "weft" / "torch" / "own.py").write_text(
        "from torch import nn\n"
        "class Own(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.layer, self.calls = nn.Linear(6, 3), 0\n"
        "    def forward(self, x, edge_index):\n"
        "        self.calls += 1\n"
        "        return self.layer(x) * (2 if self.calls > 10 else 1)\n"
    )
    spec = importlib.util.spec_from_file_location("own", path / "weft" / "torch" / "own.py")
    sys.modules["own"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_folders_of_the_user(tmp_path, graph):
    """What is a library is decided by its package, and not by the names of folders above a file."""
    own = stray(tmp_path)
    with (
        pytest.raises(weft.Refused, match=r"own.py:7: self.calls \+= 1: forward changes calls"),
        in_program(own.Own(), graph),
    ):
        pass
    assert not is_library("own") and not is_library("test_idioms") and not is_library("pytest")
    assert all(
        map(
            is_library,
            (
                "builtins",
                "weft._trace",
                "torch._C",
                "torch_geometric.nn",
                "numpy.random.mtrand",
                "inspect",
                "collections.abc",
            ),
        )
    )


@pytest.mark.parametrize("switch", [torch.no_grad, torch.inference_mode])
def test_under(switch, data, graph):
    """A session that has switched gradients off trains the same."""
    settings = {"loss": lambda z, y: F.cross_entropy(z, y)}

    def program():
        torch.manual_seed(4)
        with in_program(Net(lambda s, h, e: h @ s.w), graph, **settings) as (text, state):
            return text, {name: value.tolist() for name, value in state.items()}

    wanted = program()
    with switch():
        assert program() == wanted


class Drawing(nn.Linear):
    """Which draws when it is copied, as layers of older versions of PyG do."""

    def __deepcopy__(self, memo):
        made = Drawing(self.in_features, self.out_features)
        made.load_state_dict(self.state_dict())
        return made


def test_generators_stay(graph):
    """No copy that is made for a training, or of its module, draws from the user's generator."""
    module = Net(lambda s, h, e: s.layer(h) @ s.w, set_("layer", lambda: Drawing(5, 5)))
    torch.manual_seed(4)
    wanted = torch.rand(3).tolist()
    torch.manual_seed(4)
    settings = {"epochs": 1, "split": "random:60/20/20", "progress": False}
    run = weft.train(graph, model=module, loss=lambda z, y: F.cross_entropy(z, y), **settings)
    run.module()
    assert torch.rand(3).tolist() == wanted


def test_seeds_no_card(graph, monkeypatch):
    """PyTorch's generators on cards are left alone."""
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: pytest.fail("seeds cards"))
    with in_program(Net(lambda s, h, e: h @ s.w), graph):
        pass


def test_comes_back(data, graph):
    """The module of a run has the trained weights in its closures, too, and shares nothing with the one that
    was given."""
    module = Net(lambda s, h, e: s.f(h), closure_of)
    kept = copy.deepcopy(module.state_dict())
    run = weft.train(
        graph, model=module, epochs=3, lr=0.1, split="random:60/20/20", out="run", progress=False
    )
    trained = run.module().eval()
    with torch.no_grad():
        np.testing.assert_allclose(trained(data["x"], data["edge_index"]).numpy(), run.logits, atol=1e-5)
    assert not torch.equal(trained.w, kept["w"]) and all(
        torch.equal(v, kept[k]) for k, v in module.state_dict().items()
    )
