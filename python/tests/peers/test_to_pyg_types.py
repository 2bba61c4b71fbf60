"""to_pyg of graphs of several types, or with types of edges: PyG's layers with a run's weights compute its
logits."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import torch
from to_pyg_runs import (
    BARE,
    DOTTED,
    FEATURED,
    FEATURES,
    HEADS,
    KINDS,
    ODD,
    PLAIN,
    TYPED,
    UNFEATURED,
    WEIGHTED,
    V,
    check_rivals,
    far,
    graph,
    logits,
    relations,
)
from torch_geometric.data import HeteroData

import weft
from weft.pyg import to_pyg

RELATIONAL = [
    *[
        (f"--model rgcn --layers {n} --hidden 12 {more}", KINDS)
        for n in (1, 2, 3)
        for more in (
            "",
            "--bases 2",
            "--num-blocks 3",
            "--bases 2 --norm layer --residual",
            "--norm batch --activation elu",
        )
    ],
    *[
        (f"--model rgcn --layers {n} --hidden 12 {more}", BARE)
        for n in (1, 2)
        for more in ("", "--bases 2", "--node-embedding 5")
    ],
]


@pytest.mark.parametrize(
    "flags, data", RELATIONAL, ids=[f + (" featureless" if d is BARE else "") for f, d in RELATIONAL]
)
def test_rgcn(trained, flags, data):
    run = trained(data, flags)
    x = data.x if data is KINDS else None
    with torch.no_grad():
        model = to_pyg(run)
        assert far(model(x, data.edge_index, edge_type=data.edge_type).numpy(), logits(run)) < 1e-5
        assert far(model(x, data.edge_index, edge_type=data.edge_type.flip(0)).numpy(), logits(run)) > 1e-4
        with pytest.raises(weft.Refused, match="edge_type: the run's model reads it"):
            model(x, data.edge_index)
        with pytest.raises(weft.Refused, match="edge_type: the run has 3 relations, and a number is 3"):
            model(x, data.edge_index, edge_type=data.edge_type + 1)


@pytest.mark.parametrize(
    "flags", ["--model gcn", "--model sage --normalize-features row", "--model gine", "--model mlp"]
)
def test_numbered_relations(trained, flags):
    """Other models, too, take the types of edges as a Data has them."""
    data = KINDS.clone()
    more = {}
    if "gine" in flags:
        data.edge_attr = more["edge_attr"] = FEATURED.edge_attr
    if "gcn" in flags:
        data.edge_weight = more["edge_weight"] = WEIGHTED.edge_weight
    run = trained(data, f"{flags} --hidden 12 --layers 3")
    model = to_pyg(run)
    with torch.no_grad():
        assert (
            far(model(data.x, data.edge_index, edge_type=data.edge_type, **more).numpy(), logits(run)) < 1e-5
        )
        if "mlp" not in flags:
            assert (
                far(
                    model(data.x, data.edge_index, edge_type=data.edge_type.flip(0), **more).numpy(),
                    logits(run),
                )
                > 1e-4
            )
            with pytest.raises(weft.Refused, match="edge_type: the run's model reads it"):
                model(data.x, data.edge_index, **more)
            with pytest.raises(weft.Refused, match="edge_type: the run has 3 relations, and a number is 3"):
                model(data.x, data.edge_index, edge_type=data.edge_type + 1, **more)


ONE = relations({"paper": 30})
WIDE = relations({"paper": 30, "author": 20})
WIDE["author"].x = WIDE["author"].x[:, :FEATURES]


def featured(data):
    """The graph with features and weights of all edges."""
    rng = torch.Generator().manual_seed(4)
    data = data.clone()
    for r in data.edge_types:
        data[r].edge_attr = torch.rand(60, 4, generator=rng)
    return data


def weighted(data):
    data = data.clone()
    for i, r in enumerate(data.edge_types):
        data[r].edge_weight = torch.rand(60, generator=torch.Generator().manual_seed(i)) + 0.5
    return data


HETERO = {
    **{
        f"--model {m} --layers {n} --hidden 12 {more}": TYPED
        for n in (1, 2, 3)
        for m, more in (
            ("sage", "--norm layer"),
            ("gat", "--heads 3 --output-heads 2"),
            ("gatv2", "--heads 3"),
            ("transformer", "--heads 3 --norm batch"),
        )
    },
    "--model sage --layers 3 --hidden 12 --residual --aggregation max --activation elu": TYPED,
    "--model sage --hidden 12 --normalize-features row": TYPED,
    "--model sage --hidden 12 --node-embedding 5": UNFEATURED,
    "--model gin --hidden 12 --norm layer": WIDE,
    "--model sage --hidden 12 --norm batch": DOTTED,
    "--model sage --hidden 12 --node-embedding 4": relations({"a.b": 30, "c.d": 20}, bare=("c.d",)),
    **{
        f"--model rgcn --layers {n} --hidden 12 {more}": TYPED
        for n in (1, 2, 3)
        for more in ("", "--bases 2 --norm batch", "--residual --activation elu --norm layer")
    },
    "--model rgcn --layers 3 --hidden 12 --num-blocks 3": relations({"paper": 30, "author": 20}, widths=6),
    **{
        f"--model rgcn --layers {n} --hidden 12 {more}": UNFEATURED
        for n in (1, 2)
        for more in ("--bases 3", " ", "--node-embedding 5 --norm layer")
    },
    "--model rgcn --layers 2 --hidden 12 --bases 3 --norm layer": relations(
        {"paper": 30, "author": 20}, bare=("paper", "author")
    ),
    "--model rgcn --layers 2 --hidden 12 --bases 2": DOTTED,
    "--model sage --layers 3 --hidden 12 --norm layer": ODD,
    "--model rgcn --layers 3 --hidden 12 --norm layer": ODD,
    "--model mlp --layers 3 --hidden 12 --norm layer": ODD,
    "--model mlp --hidden 12": ONE,
    "--model mlp --hidden 12 --normalize-features row": TYPED,
    **{f"--model {m} --hidden 12": ONE for m in ("gcn", "gin", "gat")},
    "--model gcn --hidden 12 --normalize-features standard": ONE,
    "--model gcn --hidden 12 --norm pair": weighted(ONE),
    **{
        f"--model {m} --hidden 12": featured(WIDE)
        for m in ("gine", *(f"{m} --use-edge-features" for m in HEADS))
    },
}

# Flags of these, and other values of their settings.
OTHERS = [
    ("--residual", "residual", "false"),
    ("--activation elu", "activation", "relu"),
    ("--aggregation max", "aggregation", "mean"),
    ("--norm layer", "norm", "none"),
    ("--normalize-features", "normalize-features", "none"),
]


@pytest.mark.parametrize("flags", HETERO)
def test_types(trained, flags):
    data = HETERO[flags]
    run = trained(data, flags)
    model, x, edges = to_pyg(run), data.collect("x", allow_empty=True), data.edge_index_dict
    inputs = {
        f"{name}_dict": data.collect(name)
        for name in ("edge_attr", "edge_weight")
        if name in data.edge_stores[0]
    }
    with torch.no_grad():
        assert far(model(x_dict=x, edge_index_dict=edges, **inputs).numpy(), logits(run)) < 1e-5
        if "mlp" in flags:  # it reads the rows of one type, and may be given these alone
            predicted = next(name for name in x if "y" in data[name])
            assert torch.equal(model(x[predicted]), model(x, edges))
            return
        first = next(iter(edges))
        wrong = edges | {first: torch.stack([edges[first][0].flip(0), edges[first][1]])}
        assert far(model(x, wrong, **inputs).numpy(), logits(run)) > 1e-4
        with pytest.raises(weft.Refused, match=r"reads the relation .*__(cites|part.of|in/of)__"):
            model(x, {r: e for r, e in edges.items() if r != first}, **inputs)
        rivals = [
            (setting, other)
            for flag, setting, other in OTHERS
            if flag in flags
            and "--layers 1" not in flags
            and (setting != "residual" or "--layers 3" in flags)
        ]
        check_rivals(run, rivals, lambda other: other(x, edges, **inputs).numpy())
        if "edge_attr_dict" in inputs:
            with pytest.raises(weft.Refused, match="edge_attr: the run's model reads it"):
                model(x, edges)
        if "edge_weight_dict" in inputs:
            ones = {r: torch.ones(60) for r in edges}
            assert far(model(x, edges, edge_weight_dict=ones).numpy(), logits(run)) > 1e-4
            with pytest.raises(weft.Refused, match="edge_weight: the run's graph has weights"):
                model(x, edges)


@pytest.mark.parametrize("model", ["sage", "rgcn"])
def test_links_of_types(trained, model):
    """Links between two types need the rows of both."""
    run = trained(TYPED, f"--task link --model {model} --hidden 12 --link-relation author,writes,paper")
    out = run.directory / "all.npy"
    trained.program("predict", run.directory, "--out", out)
    order = json.loads((run.directory / "run.json").read_text())["summary"]["links"]["types"]
    with torch.no_grad():
        rows = to_pyg(run)(TYPED.x_dict, TYPED.edge_index_dict)
    assert far(torch.cat([rows[t["type"]] for t in order]).numpy(), np.load(out)) < 1e-5


@pytest.mark.parametrize(
    "flags, data", [("--model gat --norm layer", PLAIN), ("--model rgcn --normalize-features row", TYPED)]
)
def test_copies(trained, tmp_path, flags, data):
    """A module can be saved, copied and trained on."""
    model = to_pyg(trained(data, f"{flags} --hidden 12"))
    inputs = (data.x, data.edge_index) if data is PLAIN else (data.x_dict, data.edge_index_dict)
    torch.save(model, tmp_path / "model.pt")
    for other in (copy.deepcopy(model), torch.load(tmp_path / "model.pt", weights_only=False)):
        assert torch.equal(other(*inputs), model(*inputs))
    model.train()(*inputs).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


BACK = {
    "--model gcn": WEIGHTED,
    "--model gcn --normalize-features standard": PLAIN,
    "--model gcn --node-embedding 5 --direction out": graph(x=None, num_nodes=V),
    "--model mlp": TYPED,
    "--model sage --node-embedding 5": UNFEATURED,
    "--model sage": DOTTED,
    "--model rgcn --bases 2": ODD,
}


@pytest.mark.parametrize("flags", BACK)
def test_weights_back(trained, tmp_path, flags):
    """What was trained further in PyTorch goes on in weft."""
    data = BACK[flags]
    run = trained(data, f"{flags} --hidden 12")
    model = to_pyg(run)
    named = model.state_dict()
    assert named.keys() == run.state_dict().keys()
    assert all(np.array_equal(named[name].numpy(), value) for name, value in run.state_dict().items())

    def z(module):
        if isinstance(data, HeteroData):
            return module(data.collect("x", allow_empty=True), data.edge_index_dict)
        return module(data.x, data.edge_index, data.edge_weight)

    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    (z(model) ** 2).sum().sqrt().backward()
    optimizer.step()
    want = z(model).detach()
    assert far(want.numpy(), logits(run)) > 1e-2
    words = flags.replace("-", "_").split()
    settings = dict(zip((name.strip("_") for name in words[::2]), words[1::2]))
    more = {"hidden": 12, "epochs": 1, "dropout": 0, "lr": 1e-30, "out": tmp_path / "run", "progress": False}
    again = weft.train(data, init=model.state_dict(), **settings, **more)
    assert far(again.logits, want.numpy()) < 1e-5
    other = copy.deepcopy(to_pyg(run))
    other.load_state_dict({name: torch.from_numpy(value) for name, value in again.state_dict().items()})
    assert far(z(other).detach().numpy(), want.numpy()) < 1e-5


@pytest.mark.parametrize("model", ["sage", "rgcn"])
def test_older_runs(trained, model):
    """A run without the names of types is refused."""
    run = trained(TYPED, f"--model {model} --hidden 12")
    record = json.loads((run.directory / "run.json").read_text())
    del record["summary"]["graph"]["types"], record["summary"]["graph"]["relations"]
    (run.directory / "run.json").write_text(json.dumps(record))
    with pytest.raises(weft.Refused, match="of a weft that did not record the types"):
        weft.load(run.directory).to_pyg()
