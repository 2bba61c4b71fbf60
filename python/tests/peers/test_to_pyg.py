"""to_pyg: PyG's layers with a run's weights compute the run's logits, for each setting that changes a model.

A setting that is honoured has a rival: the same weights with another value of it either do not fit the module that
is made, or compute something else.
"""

import copy
import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data, HeteroData
from torch_geometric.nn import models

import weft
from weft import pyg
from weft.pyg import Model, to_pyg

V, FEATURES, CLASSES, HUB = 40, 6, 3, 7
BEST = ("--epochs", "3", "--lr", "0.05", "--checkpoint-every", "0")


def masks(count, rng):
    split = torch.randint(3, (count,), generator=rng)
    return {name: split == i for i, name in enumerate(("train_mask", "val_mask", "test_mask"))}


def graph(**more):
    """A directed graph with isolated vertices, a hub, two equal edges and a self loop."""
    rng = torch.Generator().manual_seed(1)
    edges = torch.randint(2, V - 2, (2, 90), generator=rng)
    edges = edges[:, edges[0] != edges[1]]
    hub = torch.stack([torch.arange(3, 30, 2), torch.full((14,), HUB)])
    hub = hub[:, hub[0] != HUB]
    edges = torch.cat([edges, hub, edges[:, :3], torch.tensor([[4], [4]])], 1)
    count = edges.shape[1]
    x = torch.rand(V, FEATURES, generator=rng) * 3 + 0.1
    y = torch.randint(CLASSES, (V,), generator=rng)
    has = {
        "edge_weight": torch.rand(count, generator=rng) + 0.5,
        "edge_attr": torch.rand(count, 4, generator=rng),
    }
    data = Data(x=x, edge_index=edges, y=y, **masks(V, rng))
    for name, value in more.items():
        data[name] = has[name] if value is True else value
    return data


def relations(types, bare=(), widths=0, cites="cites"):
    """A graph of several types of edges between the given types of vertices."""
    rng = torch.Generator().manual_seed(2)
    data = HeteroData()
    for i, (name, count) in enumerate(types.items()):  # widths differ
        if name not in bare:
            data[name].x = torch.rand(count, widths or FEATURES + i, generator=rng)
        data[name].num_nodes = count
    first = next(iter(types))
    data[first].y = torch.randint(CLASSES, (types[first],), generator=rng)
    for name, mask in masks(types[first], rng).items():
        data[first][name] = mask
    ends = [(first, cites, first), (first, "extends", first)]
    for other in list(types)[1:]:
        ends += [(other, "writes", first), (first, "by", other)]
    for a, name, b in ends:
        data[a, name, b].edge_index = torch.stack(
            [torch.randint(types[t], (60,), generator=rng) for t in (a, b)]
        )
    return data


class Trained:
    """Runs on graphs, one store for each graph."""

    def __init__(self, folder, program):
        self.folder, self.program, self.stores, self.runs = folder, program, {}, 0

    def store(self, data):
        if id(data) not in self.stores:
            path = self.folder / f"{len(self.stores)}.pt"
            torch.save(data, path)
            self.program("import", "pyg", path, path.with_suffix(""))
            self.stores[id(data)] = (path.with_suffix(""), data)  # the data are kept, and so is their id
        return self.stores[id(data)][0]

    def __call__(self, data, flags):
        self.runs += 1
        directory = self.folder / f"run{self.runs}"
        self.program("train", self.store(data), *BEST, *flags.split(), "--out", directory)
        return weft.load(directory)


@pytest.fixture(scope="module")
def trained(tmp_path_factory, program):
    return Trained(tmp_path_factory.mktemp("runs"), program)


PLAIN, WEIGHTED, FEATURED = graph(), graph(edge_weight=True), graph(edge_attr=True)


def logits(run):
    return np.load(Path(run.directory) / "predictions.npy")


@torch.no_grad()
def computed(model, data, **arguments):
    for name in ("edge_weight", "edge_attr"):
        if name in data and name not in arguments:
            arguments[name] = data[name]
    if any(type(part).__name__ == "PNAConv" for part in model.modules()):
        # its variance of nearly equal messages is a difference of large numbers, which float32 lacks
        model, data = copy.deepcopy(model).double(), data.clone().apply(lambda t: t.double() if t.is_floating_point() else t)
        arguments = {name: value.double() if value.is_floating_point() else value for name, value in arguments.items()}
    return model(data.x, data.edge_index, **arguments).numpy()


def far(a, b):
    """The largest difference, as a share of the largest logit if that is above 1."""
    return np.abs(a - b).max() / max(1, np.abs(b).max())


def rival(run, setting, value):
    """The run with another value of a setting beside the same weights."""
    record = json.loads((run.directory / "run.json").read_text())
    assert record["settings"][setting] != value, f"the run has {setting} {value} itself"
    record["settings"][setting] = value
    other = run.directory.parent / f"{run.directory.name}-{setting}-{value}"
    other.mkdir()
    (other / "run.json").write_text(json.dumps(record))
    (other / "model.safetensors").symlink_to(run.directory / "model.safetensors")
    return weft.load(other)


def check_rivals(run, rivals, compute):
    """With another setting beside the same weights the module does not compute the run's logits."""
    want = logits(run)
    for setting, value in rivals:
        try:
            other = compute(to_pyg(rival(run, setting, value)))
        except (RuntimeError, KeyError, AssertionError):
            continue  # the weights do not fit
        assert other.shape != want.shape or far(other, want) > 1e-4, f"{setting} {value} computes the same"


def check(run, data, *rivals, **arguments):
    """The module computes the run's logits, and with another setting it does not."""
    model = to_pyg(run)
    assert far(computed(model, data, **arguments), logits(run)) < 1e-5
    check_rivals(run, rivals, lambda other: computed(other, data, **arguments))
    return model


# What each model is trained with, but rgcn, which needs types of edges, and sgc, which is one convolution.
HEADS = {"gat": 3, "gatv2": 3, "transformer": 2}
LAYERED = {
    m: f"--hidden 12 --heads 3 --output-heads {HEADS[m]}" if m in HEADS else "--hidden 12"
    for m in pyg.KINDS
    if m not in ("rgcn", "sgc")
}


def data_of(model):
    return FEATURED if pyg.KINDS[model].takes == "edge_attr" else PLAIN


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
            f"--model {m} --hidden 12 --layers 3 --blocks residual --norm {n} {'--heads 3' if m == 'gat' else ''}",
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


def kinds(**without):
    """PLAIN with three types of edges."""
    rng = torch.Generator().manual_seed(3)
    data = PLAIN.clone()
    data.edge_type = torch.randint(3, (data.num_edges,), generator=rng)
    for name in without:
        del data[name]
    data.num_nodes = V
    return data


KINDS, BARE = kinds(), kinds(x=None)
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


TYPED = relations({"paper": 30, "author": 20})
UNFEATURED = relations({"paper": 30, "author": 20}, bare=("author",))
ONE = relations({"paper": 30})
DOTTED = relations({"a.b": 30, "c.d": 20}, cites="part.of")
# Names of which one is the end of another's, or the other's with another sign, or an attribute of a module.
ODD = relations(
    {"http://a.org/b#type": 30, "x__type": 20, "type": 25, "a.b": 20, "a%2Eb": 15, "a.b.c": 20, "weight": 10},
    cites="in/of",
)
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
    given = {
        f"{name}_dict": data.collect(name)
        for name in ("edge_attr", "edge_weight")
        if name in data.edge_stores[0]
    }
    with torch.no_grad():
        assert far(model(x_dict=x, edge_index_dict=edges, **given).numpy(), logits(run)) < 1e-5
        if "mlp" in flags:  # it reads the rows of one type, and may be given these alone
            predicted = next(name for name in x if "y" in data[name])
            assert torch.equal(model(x[predicted]), model(x, edges))
            return
        first = next(iter(edges))
        wrong = edges | {first: torch.stack([edges[first][0].flip(0), edges[first][1]])}
        assert far(model(x, wrong, **given).numpy(), logits(run)) > 1e-4
        with pytest.raises(weft.Refused, match=r"reads the relation .*__(cites|part.of|in/of)__"):
            model(x, {r: e for r, e in edges.items() if r != first}, **given)
        rivals = [
            (setting, other)
            for flag, setting, other in OTHERS
            if flag in flags
            and "--layers 1" not in flags
            and (setting != "residual" or "--layers 3" in flags)
        ]
        check_rivals(run, rivals, lambda other: other(x, edges, **given).numpy())
        if "edge_attr_dict" in given:
            with pytest.raises(weft.Refused, match="edge_attr: the run's model reads it"):
                model(x, edges)
        if "edge_weight_dict" in given:
            ones = {r: torch.ones(60) for r in edges}
            assert far(model(x, edges, edge_weight_dict=ones).numpy(), logits(run)) > 1e-4
            with pytest.raises(weft.Refused, match="edge_weight: the run's graph has weights"):
                model(x, edges)


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


@pytest.mark.parametrize(
    "flags, data", [("--model gat --norm layer", PLAIN), ("--model rgcn --normalize-features row", TYPED)]
)
def test_copies(trained, tmp_path, flags, data):
    """A module can be saved, copied and trained on."""
    model = to_pyg(trained(data, f"{flags} --hidden 12"))
    given = (data.x, data.edge_index) if data is PLAIN else (data.x_dict, data.edge_index_dict)
    torch.save(model, tmp_path / "model.pt")
    for other in (copy.deepcopy(model), torch.load(tmp_path / "model.pt", weights_only=False)):
        assert torch.equal(other(*given), model(*given))
    model.train()(*given).sum().backward()
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

    def z(of):
        if isinstance(data, HeteroData):
            return of(data.collect("x", allow_empty=True), data.edge_index_dict)
        return of(data.x, data.edge_index, data.edge_weight)

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


def test_unknown_model(trained):
    run = trained(PLAIN, "--model gcn")
    with pytest.raises(
        weft.Refused,
        match="model graphormer: has no counterpart of PyG's layers; those that have one are mlp, gcn, sage,",
    ):
        to_pyg(rival(run, "model", "graphormer"))


@pytest.mark.parametrize("model", ["sage", "rgcn"])
def test_older_runs(trained, model):
    """A run without the names of types is refused."""
    run = trained(TYPED, f"--model {model} --hidden 12")
    record = json.loads((run.directory / "run.json").read_text())
    del record["summary"]["graph"]["types"], record["summary"]["graph"]["relations"]
    (run.directory / "run.json").write_text(json.dumps(record))
    with pytest.raises(weft.Refused, match="of a weft that did not record the types"):
        weft.load(run.directory).to_pyg()


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
