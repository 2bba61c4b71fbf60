"""to_pyg: PyG's layers with a run's weights compute the run's logits, for each setting that changes a
model."""

from __future__ import annotations

import importlib
import sys

import numpy as np
import pytest
import torch
from to_pyg_runs import (
    CLASSES,
    FEATURED,
    FEATURES,
    HEADS,
    KINDS,
    LAYERED,
    PLAIN,
    TYPED,
    WEIGHTED,
    V,
    check,
    computed,
    data_of,
    far,
    graph,
    logits,
    rival,
)
from torch_geometric.nn import models

import weft
from weft import pyg
from weft.pyg import Model, to_pyg


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("model", LAYERED)
def test_layers(trained, model, layers):
    data = data_of(model)
    run = trained(data, f"--model {model} --layers {layers} {LAYERED[model]}")
    made = check(run, data, ("layers", str(layers + 1)))
    own = pyg.KINDS[model].own
    assert own is None or type(made) is own


def test_own_models(trained):
    """Whatever PyG's own model can hold is one: output heads, jumping knowledge, norms."""
    for flags, own in (
        ("--model gat --heads 4", models.GAT),
        ("--model gatv2 --heads 2 --output-heads 3", models.GAT),
        ("--model gat --heads 4 --jk cat", models.GAT),
        ("--model gin --norm pair", models.GIN),
        ("--model sage --norm graph --aggregation max", models.GraphSAGE),
    ):
        assert type(check(trained(PLAIN, f"{flags} --hidden 12"), PLAIN)) is own


@pytest.mark.parametrize("norm", ["batch", "layer", "graph", "pair"])
@pytest.mark.parametrize("model", [m for m in LAYERED if m != "gcnii"])
def test_norm(trained, model, norm):
    data = data_of(model)
    check(trained(data, f"--model {model} --layers 3 {LAYERED[model]} --norm {norm}"), data, ("norm", "none"))


@pytest.mark.parametrize(
    "activation, other",
    [
        ("none", "relu"),
        ("elu", "relu"),
        ("leaky-relu", "relu"),
        ("tanh", "relu"),
        ("sigmoid", "relu"),
        ("gelu", "relu"),
    ],
)
def test_activation(trained, activation, other):
    for model in ("gcn", "gin", "transformer", "mlp"):
        check(
            trained(PLAIN, f"--model {model} {LAYERED[model]} --activation {activation}"),
            PLAIN,
            ("activation", other),
        )


# A setting of some models, the data, and rivals: other values of settings.
OPTIONS = [
    *[
        (
            f"--model {m} --layers 3 {LAYERED[m]} --residual --norm layer",
            data_of(m),
            [("residual", "false")],
        )
        for m in LAYERED
        if m not in ("gcnii", "resgcn")
    ],
    *[
        (
            f"--model {m} --layers 3 {LAYERED[m].split('--output')[0]} --jk {jk}",
            data_of(m),
            [("jk", "none"), ("jk", {"cat": "max", "max": "cat"}[jk])],
        )
        for m in LAYERED
        if m not in ("mlp", "appnp", "gcnii", "resgcn")
        for jk in ("cat", "max")
    ],
    ("--model gcn --layers 3 --hidden 12 --jk cat --residual --norm layer", PLAIN, [("residual", "false")]),
    *[
        (f"--model {m} {LAYERED[m]} --direction out", PLAIN, [("direction", "in")])
        for m in LAYERED
        if m != "mlp" and data_of(m) is PLAIN
    ],
    ("--model sgc --direction out", PLAIN, [("direction", "in")]),
    *[
        (f"--model {m} {LAYERED[m]} --direction both", PLAIN, [("direction", "in")])
        for m in LAYERED
        if m not in ("mlp", "pna", "appnp", "gcnii") and data_of(m) is PLAIN
    ],
    *[(f"--model {m} --hidden 12 --heads 3", PLAIN, [("heads", "2"), ("output-heads", "3")]) for m in HEADS],
    *[
        (
            f"--model {m} --hidden 12 --heads 2 --output-heads 4",
            PLAIN,
            [("heads", "1"), ("output-heads", "1")],
        )
        for m in HEADS
    ],
    *[
        (f"--model {m} --hidden 12 --heads 1 --output-heads 3 --layers 1", PLAIN, [("output-heads", "1")])
        for m in HEADS
    ],
    *[(f"--model {m} --hidden 12 --heads 3 --use-edge-features", FEATURED, []) for m in HEADS],
    ("--model sage --hidden 12 --aggregation max", PLAIN, [("aggregation", "mean"), ("aggregation", "sum")]),
    ("--model sage --hidden 12 --aggregation sum", PLAIN, [("aggregation", "mean"), ("aggregation", "max")]),
    ("--model sage --hidden 12 --aggregation max --direction both", PLAIN, [("aggregation", "mean")]),
    *[
        (
            f"--model {m} {LAYERED[m]} --normalize-features {n}",
            data_of(m),
            [("normalize-features", "none")],
        )
        for m in ("gcn", "gine", "mlp")
        for n in ("row", "standard")
    ],
    ("--model appnp --hidden 12 --alpha 0.3", PLAIN, [("alpha", "0.1")]),
    ("--model appnp --hidden 12 --rounds 4", PLAIN, [("rounds", "0")]),
    ("--model sgc", PLAIN, [("rounds", "1")]),
    ("--model sgc --rounds 3", PLAIN, [("rounds", "0")]),
    (
        "--model gcnii --hidden 12 --layers 4 --alpha 0.3 --theta 0.9",
        PLAIN,
        [("alpha", "0.1"), ("theta", "0.5"), ("activation", "elu")],
    ),
    ("--model gcnii --hidden 12 --layers 3 --shared-weights=false", PLAIN, [("shared-weights", "true")]),
    (
        "--model gcn --hidden 12 --decoupled --teleport 0.2 --rounds 3",
        PLAIN,
        [("teleport", "0"), ("rounds", "0"), ("decoupled", "false")],
    ),
    *[
        (
            (
                f"--model {m} --hidden 12 --layers 3 --blocks residual --norm {n} "
                f"{'--heads 3' if m == 'gat' else ''}"
            ),
            PLAIN,
            [("blocks", "plain"), ("norm", "none")],
        )
        for m in ("gcn", "sage", "gat")
        for n in ("auto", "batch", "pair")
    ],
    ("--model sage --hidden 12 --blocks residual --direction both", PLAIN, [("direction", "in")]),
    *[
        (f"--model {m} {LAYERED.get(m, '')}", WEIGHTED, [])
        for m, kind in pyg.KINDS.items()
        if kind.takes == "edge_weight"
    ],
    *[
        (f"--model gcn --hidden 12 {more}", WEIGHTED, [])
        for more in ("--direction both", "--residual --layers 3", "--blocks residual", "--decoupled")
    ],
]


@pytest.mark.parametrize(
    "flags, data, rivals", OPTIONS, ids=[o[0] + (" weighted" if o[1] is WEIGHTED else "") for o in OPTIONS]
)
def test_option(trained, flags, data, rivals):
    run = trained(data, flags)
    model = check(run, data, *rivals)
    if data is FEATURED:
        assert far(computed(model, data, edge_attr=data.edge_attr.flip(0)), logits(run)) > 1e-4
        with pytest.raises(weft.Refused, match="edge_attr: the run's model reads it"):
            model(data.x, data.edge_index)
    if data is WEIGHTED:
        assert far(computed(model, data, edge_weight=torch.ones(data.num_edges)), logits(run)) > 1e-4
        with pytest.raises(weft.Refused, match="edge_weight: the run's graph has weights"):
            model(data.x, data.edge_index)


@pytest.mark.parametrize(
    "flags", ["--model gine", "--model transformer --use-edge-features", "--model gatv2 --use-edge-features"]
)
def test_edge_features_of_a_vector(trained, flags):
    """Features of edges that are one number are given as the run's graph has them."""
    data = graph(edge_attr=FEATURED.edge_attr[:, 0])
    check(trained(data, f"{flags} --hidden 12"), data)


def test_values(trained):
    """Scores become values by means and deviations of the training vertices."""
    data = graph()
    data.y = torch.rand(V, 2, generator=torch.Generator().manual_seed(5)) * 100 + 50
    model = check(trained(data, "--model gcn --hidden 12"), data)
    assert type(model) is Model and type(model.net) is models.GCN
    assert "target_mean + target_deviation * net" in repr(model)
    want = data.y[data.train_mask].double()
    assert torch.allclose(model.target_mean.double(), want.mean(0), rtol=1e-6)
    assert torch.allclose(model.target_deviation.double(), want.std(0, correction=0), rtol=1e-6)


def test_several_labels(trained):
    data = graph()
    data.y = torch.randint(2, (V, 4), generator=torch.Generator().manual_seed(6))
    check(trained(data, "--model sage --hidden 12"), data)


@pytest.mark.parametrize("normalize", ["none", "row", "standard"])
def test_label_input(trained, normalize):
    """Labels of training vertices stand behind the features, and are not scaled with them."""
    run = trained(PLAIN, f"--model gcn --hidden 12 --label-input 0.5 --normalize-features {normalize}")
    data = PLAIN.clone()
    shown = torch.nn.functional.one_hot(data.y, CLASSES) * data.train_mask[:, None]
    data.x = torch.cat([data.x, shown.float()], 1)
    check(run, data)
    data.x[:, FEATURES:] = 0
    assert far(computed(to_pyg(run), data), logits(run)) > 1e-4


def test_embedding(trained):
    """Vertices without features have the rows that the run learned."""
    data = graph(x=None, num_nodes=V)
    run = trained(data, "--model gcn --hidden 12 --node-embedding 5 --direction out")
    model = check(run, data)
    assert model.embed["vertex"].shape == (V, 5)


@pytest.mark.parametrize(
    "more", ["", "--out-features 5", "--decoder distmult", "--decoder distmult --layers 3 --norm batch"]
)
def test_links(trained, more):
    """A model of links computes the vertices' embeddings, along all edges as weft predict does."""
    run = trained(PLAIN, f"--task link --model gcn --hidden 12 {more}")
    out = run.directory / "all.npy"
    trained.program("predict", run.directory, "--out", out)
    model = to_pyg(run)
    assert far(computed(model, PLAIN), np.load(out)) < 1e-5
    assert model.state_dict().keys() == run.state_dict().keys()  # the decoder's, too


def test_bfloat16(trained):
    """A run's rounding is not the module's, whose weights are the run's all the same."""
    run = trained(PLAIN, "--model sage --hidden 12 --precision bf16")
    assert 1e-5 < far(computed(to_pyg(run), PLAIN), logits(run)) < 0.05
    exact = run.directory / "f32.npy"
    trained.program(
        "predict",
        "--init",
        run.directory / "model.safetensors",
        "--config",
        run.directory / "run.yaml",
        "--precision",
        "f32",
        trained.store(PLAIN),
        "--out",
        exact,
    )
    assert far(computed(to_pyg(run), PLAIN), np.load(exact)) < 1e-5


def test_dropout(trained):
    """Each module has the run's dropouts while it trains, and none while it computes."""
    for flags, data in (
        ("--model gcn", PLAIN),
        ("--model gat", PLAIN),
        ("--model sage --residual", PLAIN),
        ("--model mlp", PLAIN),
        ("--model gcnii", PLAIN),
        ("--model resgcn", PLAIN),
        ("--model sage --blocks residual", PLAIN),
    ):
        model = to_pyg(trained(data, f"{flags} --hidden 12 --dropout 0.9"))
        assert not model.training
        torch.manual_seed(0)
        assert far(computed(model.train(), data), computed(model.eval(), data)) > 1e-2
    net = to_pyg(trained(PLAIN, "--model gat --hidden 12 --dropout 0.3 --attention-dropout 0.2"))
    assert net.dropout.p == 0.3 and {conv.dropout for conv in net.convs} == {0.2}


@pytest.mark.parametrize("mesh", ["graph=2", "tensor=2", "pipeline=2", "graph=3 --partitions 6"])
def test_workers(trained, mesh):
    """What several workers train is the same model."""
    check(trained(WEIGHTED, f"--model gcn --hidden 12 --parallel {mesh}"), WEIGHTED)
    if "pipeline" not in mesh:
        run = trained(TYPED, f"--model rgcn --hidden 12 --bases 2 --parallel {mesh}")
        with torch.no_grad():
            assert far(to_pyg(run)(TYPED.x_dict, TYPED.edge_index_dict).numpy(), logits(run)) < 1e-5


def test_unknown_model(trained):
    run = trained(PLAIN, "--model gcn")
    with pytest.raises(
        weft.Refused,
        match="model graphormer: has no counterpart of PyG's layers; those that have one are mlp, gcn, sage,",
    ):
        to_pyg(rival(run, "model", "graphormer"))


@pytest.mark.parametrize(
    "flags, data, line",
    [
        *[
            (f"--model {m} --decoupled", PLAIN, f"decoupled: PyG has no rounds of {m}'s aggregation")
            for m in ("sage", "gat", "gin")
        ],
        ("--model rgcn --decoupled", KINDS, "decoupled: PyG has no rounds of R-GCN"),
    ],
)
def test_refused(trained, flags, data, line):
    with pytest.raises(weft.Refused, match=line) as e:
        to_pyg(trained(data, flags))
    assert "\n" not in str(e.value)


def test_without_pyg(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    monkeypatch.delitem(sys.modules, "weft.pyg", raising=False)
    with pytest.raises(
        ImportError, match=r"^to_pyg: torch_geometric is not installed; pip install torch torch_geometric$"
    ):
        importlib.import_module("weft.pyg")
