"""A run's model in PyTorch Geometric (PyG), with the run's weights.

    import weft

    run = weft.train(data, model="gat", heads=4)
    model = run.to_pyg()
    logits = model(data.x, data.edge_index)         # run.logits, but for rounding

Needs torch and torch_geometric.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from ._errors import Refused

if TYPE_CHECKING:
    from ._run import Run

try:
    import torch
    import torch_geometric  # noqa: F401
except ImportError as e:
    raise ImportError(
        f"to_pyg: {e.name} is not installed; pip install torch torch_geometric", name=e.name
    ) from None

from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.nn import (
    APPNP,
    BatchNorm,
    DeepGCNLayer,
    DirGNNConv,
    GATConv,
    GATv2Conv,
    GCN2Conv,
    GCNConv,
    GINConv,
    GINEConv,
    GraphNorm,
    JumpingKnowledge,
    LayerNorm,
    PairNorm,
    PNAConv,
    RGCNConv,
    SAGEConv,
    SGConv,
    SimpleConv,
    TransformerConv,
    models,
)

__all__ = ["Model", "to_pyg"]

Weights = dict[str, Tensor]
Edges = dict[tuple[str, str, str], Tensor]

_ACTIVATIONS = {
    "none": nn.Identity,
    "relu": nn.ReLU,
    "elu": nn.ELU,
    "leaky-relu": nn.LeakyReLU,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "gelu": nn.GELU,
}
_NORMS: dict[str, Callable[[int], nn.Module | None]] = {
    "none": lambda width: None,
    "batch": BatchNorm,
    "layer": lambda width: LayerNorm(width, mode="node"),
    "graph": GraphNorm,
    "pair": lambda width: PairNorm(),
}


class _Convolution(NamedTuple):
    """What PyG's convolution is made of: the settings, the weights of a layer, and the columns that it computes."""

    s: SimpleNamespace
    weights: Weights
    path: str
    out: int
    last: bool  # it computes the logits
    typed: bool  # it is one of several relations

    @property
    def reads(self) -> tuple[int, int]:
        """The columns of the rows that it reads, of an edge's source and target."""
        return _reads(self.s, self.weights, self.path)

    @property
    def ends(self) -> int | tuple[int, int]:
        return self.reads if self.typed else self.reads[0]

    @property
    def perceptron(self) -> models.MLP:
        act, norm = _ACTIVATIONS[self.s.activation](), _NORMS[self.s.norm](self.out)
        return models.MLP([self.reads[0], self.out, self.out], act=act, norm=norm)


def _gat(c: _Convolution, conv: type[nn.Module], **more: Any) -> nn.Module:
    """A convolution of graph attention."""
    heads, concat = (c.s.output_heads, False) if c.last else (c.s.heads, True)
    if (edges := f"{c.path}.lin_edge.weight") in c.weights:
        more["edge_dim"] = c.weights[edges].shape[1]
    width = c.out // heads if concat else c.out
    return conv(c.ends, width, heads=heads, concat=concat, dropout=c.s.attention_dropout, **more)


def _rgcn(c: _Convolution) -> nn.Module:
    relations = c.weights[f"{c.path}.comp" if c.s.bases else f"{c.path}.weight"].shape[0]
    bases, blocks = c.s.bases or None, c.s.num_blocks or None
    return RGCNConv(c.reads[0], c.out, relations, num_bases=bases, num_blocks=blocks)


_PNA = {
    "aggregators": ["mean", "min", "max", "std"],
    "scalers": ["identity", "amplification", "attenuation"],
    "deg": torch.tensor([0, 1]),  # the means over degrees are among the weights
}


class _Kind(NamedTuple):
    """How PyG computes a model: the module that to_pyg makes of a run has its layers."""

    make: Callable[[_Convolution], nn.Module] | None = None  # None: a module of its own computes the model
    # The weights that read the rows of an edge's source and of its target; | stands between two forms of one.
    reads: tuple[str, ...] = ()
    own: type[nn.Module] | None = None  # PyG's own model, if it has one of these convolutions
    takes: str | None = None  # what the convolutions take besides rows and edges
    axis: int = 1  # the axis of these weights that counts the columns of the rows
    more: dict[str, Any] | None = None  # arguments of own


KINDS = {
    "mlp": _Kind(),
    "gcn": _Kind(
        lambda c: GCNConv(c.reads[0], c.out, add_self_loops=not c.typed),
        ("lin.weight",),
        models.GCN,
        "edge_weight",
    ),
    "sage": _Kind(
        lambda c: SAGEConv(
            c.ends, c.out, aggr=c.s.aggregation, root_weight=f"{c.path}.lin_r.weight" in c.weights
        ),
        ("lin_l.weight", "lin_r.weight"),
        models.GraphSAGE,
    ),
    "gat": _Kind(
        lambda c: _gat(c, GATConv, add_self_loops=not c.typed),
        ("lin.weight|lin_src.weight", "lin.weight|lin_dst.weight"),
        models.GAT,
    ),
    "gatv2": _Kind(
        lambda c: _gat(c, GATv2Conv, add_self_loops=not c.typed), ("lin_l.weight", "lin_r.weight"), models.GAT
    ),
    "transformer": _Kind(lambda c: _gat(c, TransformerConv), ("lin_key.weight", "lin_query.weight")),
    "gin": _Kind(lambda c: GINConv(c.perceptron), ("nn.lins.0.weight",), models.GIN),
    "gine": _Kind(
        lambda c: GINEConv(c.perceptron, edge_dim=c.weights[f"{c.path}.lin.weight"].shape[1]),
        ("nn.lins.0.weight",),
        takes="edge_attr",
    ),
    "pna": _Kind(
        lambda c: PNAConv(c.reads[0], c.out, **_PNA), ("pre_nns.0.0.weight",), models.PNA, axis=0, more=_PNA
    ),
    "rgcn": _Kind(_rgcn, ("root",), axis=0, takes="edge_type"),
    "gcnii": _Kind(takes="edge_weight"),
    "resgcn": _Kind(),
    "appnp": _Kind(takes="edge_weight"),
    "sgc": _Kind(
        lambda c: SGConv(c.reads[0], c.out, K=c.s.rounds or 2), ("lin.weight",), takes="edge_weight"
    ),
}


def to_pyg(run: Run) -> nn.Module:
    """Returns the run's model, of PyG's layers, with the weights of its best epoch, in evaluation mode.

    It is PyG's own model where that computes the same: ``GCN``, ``GraphSAGE``, ``GAT``, ``GIN`` or ``PNA`` of
    ``torch_geometric.nn.models``. Else it is a module of PyG's layers that is called in the same way::

        model(x, edge_index, edge_weight=None, edge_attr=None, edge_type=None)

    ``x`` is float32, vertices × features, as the run's graph has it: a run with ``normalize_features``,
    ``direction="out"`` or values to predict is wrapped in :class:`Model`, which scales the features, reverses
    the edges and turns scores into values. It is None where vertices have no features. With ``label_input``
    the one-hot labels of the training vertices stand in further columns behind the features, zeros for all
    other vertices.

    ``edge_index`` is int64, 2 × edges, sources above targets, in any order. The edges are those of the run's
    graph. Edges that an import added, by ``symmetrize`` or ``self_loops``, must be in it; the self loops that
    a layer adds must not. Two things must be given if the run's graph has them and its model reads them:
    ``edge_weight`` (float32, edges; gcn, gcnii, appnp, sgc) and ``edge_attr`` (float32, edges × columns; gine,
    and ``use_edge_features`` of gat, gatv2 and transformer). rgcn needs ``edge_type`` (int64, edges): the number
    of each edge's relation, from 0, in the order of ``run.summary["graph"]["relations"]``. It is the ``edge_type`` of
    a ``Data`` in which each type occurs.

    A graph of several types is called with dictionaries, as PyG's ``to_hetero`` is::

        model(data.x_dict, data.edge_index_dict, edge_weight_dict=None, edge_attr_dict=None)

    With one type of vertices and several of edges each model takes both: dictionaries, or ``edge_type``.

    The result is the rows of the type that the run predicts (of a link prediction of several types a
    dictionary), float32, vertices × classes, equal to ``run.logits`` but for rounding. Of a link prediction
    these are embeddings; the run's own were computed along the training edges alone. A run with
    ``precision="bf16"`` rounded its rows, and the module does not.

    In training mode the module has the run's ``dropout`` and ``attention_dropout``, and neither its other
    dropouts nor its ``drop_edge``.

    Its ``state_dict()`` has the names of ``run.state_dict()``, also after further training:
    ``weft.train(data, init=model.state_dict(), …)`` goes on with it.

    Raises:
        Refused: PyG has nothing that computes the same; the text names the setting.
    """
    s = SimpleNamespace(**{name: _value(text) for name, text in run.settings.items()})
    if s.program:
        raise Refused(f"to_pyg: the run is of a module of its own, {s.model}; run.module() gives it")
    if s.model not in KINDS:
        raise Refused(
            f"model {s.model}: has no counterpart of PyG's layers; those that have one are {', '.join(KINDS)}"
        )
    graph = run.summary["graph"]
    s.types, s.relations = graph.get("types", []), graph.get("relations", [])
    s.predicted = [t["type"] for t in run.summary.get("links", {}).get("types", [])] or s.types[:1]
    s.weighted = graph.get("weighted", False) and KINDS[s.model].takes == "edge_weight"
    s.outputs = (s.out_features or s.hidden) if s.task == "link" else graph.get("values") or graph["classes"]
    if s.norm == "auto":
        s.norm = "layer" if s.model == "resgcn" or s.blocks == "residual" else "none"
    s.jk = None if s.jk == "none" or s.blocks == "residual" else s.jk
    given = run.state_dict()
    if not s.types and any(re.match(r"convs\.0\.(\w+__|(weight|root)\.)", name) for name in given):
        raise Refused(
            f"{run.directory}: is of a weft that did not record the types of the graph in run.json; train again"
        )
    s.embedded = [name[len("embed.") : -len(".weight")] for name in given if name.startswith("embed.")]
    keys = _keys(s, given)
    weights = {keys[name]: torch.from_numpy(values) for name, values in given.items()}
    around = Model.taken(s, weights)
    net = _network(s, weights)
    net.load_state_dict(weights)
    model = Model(net, **around) if around else net
    inside = {name: Model.inside(key, around) if around else key for name, key in keys.items()}
    if any(name != key for name, key in inside.items()):
        model.weights_inside = inside
        model._register_state_dict_hook(_name)
        model._register_load_state_dict_pre_hook(_unname, with_module=True)
    return model.eval()


def _name(model: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
    """Gives the weights in a module's state the names that they have in the run."""
    moved = {prefix + name: state.pop(prefix + inside) for name, inside in model.weights_inside.items()}
    state.update(moved)


def _unname(model: nn.Module, state: dict[str, Any], prefix: str, *more: Any) -> None:
    """Gives weights with the run's names those that they have in the module."""
    inside = {prefix + name: prefix + inside for name, inside in model.weights_inside.items()}
    state.update({inside[name]: state.pop(name) for name in list(state) if name in inside})


def _value(text: str) -> Any:
    """A setting's value from its text in run.json."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return {"true": True, "false": False}.get(text, text)


_TAKEN = {*dir(nn.ModuleDict()), *dir(nn.ParameterDict())}


def _key(name: str) -> str:
    """The name of a type or relation as a key of PyTorch's dictionaries: no dot, nor an attribute's name."""
    key = name.replace("%", "%25").replace(".", "%2E")
    return key + "%" if key in _TAKEN else key


def _keys(s: SimpleNamespace, weights: Iterable[str]) -> dict[str, str]:
    """The weights' names with the keys of the types and relations in them."""

    def any_of(names: Iterable[str]) -> str:  # the longest that fits
        return "(?:" + "|".join(map(re.escape, sorted(names, key=len, reverse=True))) + ")"

    places = [r"embed\.(?P<name>.+)(?=\.weight$)"]
    if s.model != "mlp" and (s.types[1:] or s.relations and s.model != "rgcn"):  # it has weights for each
        places += [
            rf"convs\.\d+\.(?P<name>{any_of(s.relations)})(?=\.)",
            rf"convs\.\d+\.(?:weight|root|bias|comp)\.(?P<name>{any_of(s.types)})$",
            rf"norms\.\d+\.(?P<name>{any_of(s.types)})(?=\.)",
        ]
    keys = {}
    for weight in weights:
        found = next((m for m in (re.match(place, weight) for place in places) if m), None)
        keys[weight] = weight
        if found:
            begin, end = found.span("name")
            keys[weight] = weight[:begin] + _key(found["name"]) + weight[end:]
    return keys


def _network(s: SimpleNamespace, weights: Weights) -> nn.Module:
    """The module that has these weights' names and shapes."""
    if s.model == "rgcn" and s.decoupled:
        raise Refused("decoupled: PyG has no rounds of R-GCN; train rgcn without it for to_pyg")
    if s.types[1:] and s.model == "rgcn":
        return TypedRGCN(s, weights)
    if s.relations and s.model not in ("rgcn", "mlp"):
        return TypedLayers(s, weights) if s.types[1:] else NumberedLayers(s, weights)
    if s.relations and s.model == "mlp":
        return TypedPerceptron(s, weights)
    if s.model in ("mlp", "appnp") or s.decoupled:
        return Perceptron(s, weights)
    if s.blocks == "residual":
        return Blocks(s, weights)
    if s.model == "gcnii":
        return GCNII(s, weights)
    if s.model == "resgcn":
        return ResGCN(s, weights)
    return _basic(s, weights) or Layers(s, weights)


def _basic(s: SimpleNamespace, weights: Weights) -> nn.Module | None:
    """PyG's own model with the run's convolutions, or None where its forward computes something else."""
    kind = KINDS[s.model]
    if kind.own is None or s.residual or s.direction == "both" or s.use_edge_features:
        return None
    net = kind.own(
        _reads(s, weights, "convs.0")[0],
        s.hidden,
        s.layers,
        s.outputs,
        dropout=s.dropout,
        act=_ACTIVATIONS[s.activation](),
        norm=_NORMS[s.norm](s.hidden),
        jk=s.jk,
        **(kind.more or {}),
    )
    # PyG's last layer has as many heads as the others, and their coefficients its dropout.
    net.convs = _convolutions(s, weights, _convolution)
    return net


def _convolutions(s: SimpleNamespace, weights: Weights, make: Callable[..., nn.Module]) -> nn.ModuleList:
    """All convolutions of a model without encoder and decoder."""
    layers = 1 if s.model == "sgc" else s.layers
    hidden = layers if s.jk else layers - 1
    return nn.ModuleList(
        make(s, weights, f"convs.{i}", s.hidden if i < hidden else s.outputs, i >= hidden)
        for i in range(layers)
    )


def _reads(s: SimpleNamespace, weights: Weights, path: str) -> tuple[int, int]:
    """The columns of the rows that a convolution reads, of an edge's source and target."""
    kind, columns = KINDS[s.model], []
    for names in kind.reads:
        keys = [f"{path}.{name}" for name in names.split("|")]
        columns += [weights[key].shape[kind.axis] for key in keys if key in weights]
    return (columns[0], columns[-1]) if columns else (0, 0)


def _convolution(
    s: SimpleNamespace, weights: Weights, path: str, out: int, last: bool, typed: bool = False
) -> nn.Module:
    """PyG's convolution to so many columns. last says that it computes the logits; typed, that it is one of several relations."""
    return KINDS[s.model].make(_Convolution(s, weights, path, out, last, typed))


def _taken(s: SimpleNamespace) -> str | None:
    """What the model's convolutions take besides rows and edges."""
    return "edge_attr" if s.use_edge_features else KINDS[s.model].takes


def _given(
    takes: str | None, edge_weight: Tensor | None, edge_attr: Tensor | None, edge_type: Tensor | None
) -> dict[str, Tensor]:
    """The argument that the convolutions take. Only weights may be left out."""
    if takes is None:
        return {}
    value = {"edge_weight": edge_weight, "edge_attr": edge_attr, "edge_type": edge_type}[takes]
    if value is None and takes != "edge_weight":
        what = {
            "edge_attr": "the features of the edges, edges × columns",
            "edge_type": "the number of each edge's relation, from 0",
        }[takes]
        raise Refused(f"{takes}: the run's model reads it; give {what}")
    if value is not None and takes == "edge_attr" and value.dim() == 1:  # one column, as in the run
        value = value[:, None]
    return {} if value is None else {takes: value}


def _check_numbers(edge_type: Tensor, count: int) -> None:
    """Refuses numbers of relations that the run does not have."""
    if len(edge_type) > 0 and (top := int(edge_type.max())) >= count:
        raise Refused(
            f"edge_type: the run has {count} relations, and a number is {top}; number them from 0, as the run's graph lists them"
        )


class Both(DirGNNConv):
    """PyG's DirGNNConv, whose convolutions also get the weights of the edges."""

    def __init__(self, s: SimpleNamespace, weights: Weights, path: str, out: int, last: bool):
        conv = _convolution(s, weights, path + ".conv_in", out, last)
        columns = weights[path + ".lin.weight"].shape[1]
        if not hasattr(conv, "in_channels"):  # DirGNNConv reads them, and GINConv has none
            conv.in_channels, conv.out_channels = columns, out
        super().__init__(conv)
        self.lin = nn.Linear(columns, out)  # DirGNNConv's has the width of one head
        if s.model == "transformer":  # DirGNNConv switches the map off, and keeps it
            self.conv_in.lin_skip = self.conv_out.lin_skip = None

    def forward(self, x: Tensor, edge_index: Tensor, **given: Tensor) -> Tensor:
        x_in, x_out = self.conv_in(x, edge_index, **given), self.conv_out(x, edge_index.flip([0]), **given)
        return 0.5 * x_in + 0.5 * x_out + self.lin(x)


class Layers(nn.Module):
    """PyG's convolutions, with norm, activation and dropout after each but the last.

    With residual connections the input of each of these but the first is added to its output. With jumping
    knowledge the last layer has norm, activation and dropout, too, and a linear layer reads the outputs of all.
    """

    def __init__(self, s: SimpleNamespace, weights: Weights):
        super().__init__()
        make = Both if s.direction == "both" and s.model != "rgcn" else _convolution
        self.convs = _convolutions(s, weights, make)
        layers = len(self.convs)
        self.norms = nn.ModuleList(
            _NORMS[s.norm](s.hidden) or nn.Identity() for _ in range(layers if s.jk else layers - 1)
        )
        self.act, self.dropout = _ACTIVATIONS[s.activation](), nn.Dropout(s.dropout)
        self.residual, self.takes = s.residual, _taken(s)
        self.jk = JumpingKnowledge(s.jk) if s.jk else None
        self.lin = nn.Linear(s.hidden * layers if s.jk == "cat" else s.hidden, s.outputs) if s.jk else None

    def forward(
        self,
        x: Tensor | None,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_type: Tensor | None = None,
    ) -> Tensor:
        given = _given(self.takes, edge_weight, edge_attr, edge_type)
        if self.takes == "edge_type":
            _check_numbers(edge_type, self.convs[0].num_relations)
        outputs = []
        for i, norm in enumerate(self.norms):
            z = self.dropout(self.act(norm(self.convs[i](x, edge_index, **given))))
            x = x + z if self.residual and i > 0 else z
            outputs.append(x)
        if self.jk is not None:
            return self.lin(self.jk(outputs))
        return self.convs[-1](x, edge_index, **given)


class TypedLayers(nn.Module):
    """Layers for a graph of several types: a convolution for each relation, whose results are summed by target type.

    A layer has the relations that the run's result depends on.
    """

    def __init__(self, s: SimpleNamespace, weights: Weights):
        super().__init__()
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        for i in range(s.layers):
            last = i == s.layers - 1
            out = s.outputs if last else s.hidden
            names = [_key(r) for r in s.relations]
            relations = [r for r in names if any(name.startswith(f"convs.{i}.{r}.") for name in weights)]
            self.convs.append(
                nn.ModuleDict(
                    {r: _convolution(s, weights, f"convs.{i}.{r}", out, last, typed=True) for r in relations}
                )
            )
            if not last:
                self.norms.append(_norms_by_type(s, weights, i))
        self.act, self.dropout = _ACTIVATIONS[s.activation](), nn.Dropout(s.dropout)
        self.residual, self.takes, self.predicted, self.relations = (
            s.residual,
            _taken(s),
            s.predicted,
            s.relations,
        )
        self.one = s.model == "gcn"  # its convolution takes the rows of one type

    def forward(
        self,
        x_dict: Weights,
        edge_index_dict: Edges,
        edge_weight_dict: Edges | None = None,
        edge_attr_dict: Edges | None = None,
    ) -> Tensor | Weights:
        x = x_dict
        for i, convs in enumerate(self.convs):
            sums: Weights = {}
            for r in _listed([r for r in self.relations if _key(r) in convs], edge_index_dict):
                given = _given(
                    self.takes, (edge_weight_dict or {}).get(r), (edge_attr_dict or {}).get(r), None
                )
                z = convs[_key("__".join(r))](
                    x[r[0]] if self.one else (x[r[0]], x[r[2]]), edge_index_dict[r], **given
                )
                sums[r[2]] = sums[r[2]] + z if r[2] in sums else z
            if i == len(self.norms):
                return _predicted(sums, self.predicted)
            z = {t: self.dropout(self.act(self.norms[i][_key(t)](h))) for t, h in sums.items()}
            x = {t: x[t] + h if self.residual and i > 0 else h for t, h in z.items()}
        raise AssertionError("a model has layers")


class NumberedLayers(TypedLayers):
    """Layers for one type of vertices and several of edges, which are in dictionaries or have numbers."""

    def __init__(self, s: SimpleNamespace, weights: Weights):
        super().__init__(s, weights)
        self.kind = s.predicted[0]

    def forward(  # type: ignore[override]
        self,
        x: Weights | Tensor,
        edge_index: Edges | Tensor,
        edge_weight: Edges | Tensor | None = None,
        edge_attr: Edges | Tensor | None = None,
        edge_type: Tensor | None = None,
        edge_weight_dict: Edges | None = None,
        edge_attr_dict: Edges | None = None,
    ) -> Tensor | Weights:
        if isinstance(edge_index, dict):
            return super().forward(
                x, edge_index, edge_weight_dict or edge_weight, edge_attr_dict or edge_attr
            )  # type: ignore[arg-type]
        numbers = _given("edge_type", None, None, edge_type)["edge_type"]
        _check_numbers(numbers, len(self.relations))
        end = len(self.kind) + len("__")

        def divided(values: Tensor | None) -> Edges:
            """By relation: the last dimension of the ends, and the first of others, are edges."""
            if values is None:
                return {}
            return {
                (self.kind, name[end:-end], self.kind): values[:, numbers == k]
                if values is edge_index
                else values[numbers == k]
                for k, name in enumerate(self.relations)
            }

        return super().forward(
            {self.kind: x},  # type: ignore[dict-item]
            divided(edge_index),
            divided(edge_weight),  # type: ignore[arg-type]
            divided(edge_attr),  # type: ignore[arg-type]
        )


def _norms_by_type(s: SimpleNamespace, weights: Weights, i: int) -> nn.ModuleDict:
    """The norms of a layer by type of vertices: those of which the run has the weights, if they have some."""
    norms = {_key(t): _NORMS[s.norm](s.hidden) or nn.Identity() for t in s.types}
    return nn.ModuleDict(
        {
            t: norm
            for t, norm in sorted(norms.items())
            if not norm.state_dict() or any(name.startswith(f"norms.{i}.{t}.") for name in weights)
        }
    )


def _listed(names: Iterable[str], edges: Edges) -> list[tuple[str, str, str]]:
    """The relations with these names. Raises Refused if one is missing."""
    given = {"__".join(r): r for r in edges}
    relations = []
    for name in names:
        if name not in given:
            raise Refused(
                f"edge_index_dict: the run's model reads the relation {name}, and it is missing; give it, with no edges if it has none"
            )
        relations.append(given[name])
    return relations


class TypedRGCN(nn.Module):
    """R-GCN for several types of vertices: PyG's RGCNConv has one weight for the rows of all types.

    A relation's part is the mean of PyG's SimpleConv times the relation's weight. x_dict lacks the types
    without features, of which the first layer has rows of weights for each vertex.
    """

    def __init__(self, s: SimpleNamespace, weights: Weights):
        super().__init__()
        self.types, self.relations, self.predicted = s.types, s.relations, s.predicted
        self.convs = nn.ModuleList(RelationWeights(s, weights, f"convs.{i}") for i in range(s.layers))
        self.norms = nn.ModuleList(_norms_by_type(s, weights, i) for i in range(s.layers - 1))
        self.mean = SimpleConv(aggr="mean")
        self.act, self.dropout, self.residual = (
            _ACTIVATIONS[s.activation](),
            nn.Dropout(s.dropout),
            s.residual,
        )

    def forward(
        self,
        x_dict: Weights,
        edge_index_dict: Edges,
        edge_weight_dict: Edges | None = None,
        edge_attr_dict: Edges | None = None,
    ) -> Tensor | Weights:
        relations = _listed(self.relations, edge_index_dict)
        x = x_dict
        for i, conv in enumerate(self.convs):
            z = {t: conv.own(t, x.get(t)) for t in self.types if conv.of("root", t) is not None}
            before = dict.fromkeys(self.types, 0)  # relations so far, by source type
            for k, r in enumerate(relations):
                weight = conv.relation(r[0], k, before[r[0]])
                before[r[0]] += 1
                if weight is None or r[2] not in z:  # the run's result does not depend on it
                    continue
                if r[0] in x:
                    z[r[2]] = z[r[2]] + self.mean((x[r[0]], z[r[2]]), edge_index_dict[r]) @ weight
                else:
                    z[r[2]] = z[r[2]] + self.mean((weight, z[r[2]]), edge_index_dict[r])
            if i == len(self.norms):
                return _predicted(z, self.predicted)
            z = {
                t: self.dropout(self.act(self.norms[i][_key(t)](h)))
                for t, h in z.items()
                if _key(t) in self.norms[i]
            }
            x = {t: x[t] + h if self.residual and i > 0 else h for t, h in z.items()}
        raise AssertionError("a model has layers")


class RelationWeights(nn.Module):
    """The weights of a layer of :class:`TypedRGCN`: one for all types of vertices, or one for each."""

    def __init__(self, s: SimpleNamespace, weights: Weights, path: str):
        super().__init__()
        self.blocks = s.num_blocks
        for name in ("weight", "root", "bias", "comp"):
            if f"{path}.{name}" in weights:
                self.register_parameter(name, nn.Parameter(weights[f"{path}.{name}"]))
            else:
                of = {_key(t): f"{path}.{name}.{_key(t)}" for t in s.types}
                self.add_module(
                    name,
                    nn.ParameterDict({t: nn.Parameter(weights[w]) for t, w in of.items() if w in weights}),
                )

    def of(self, name: str, kind: str) -> Tensor | None:
        """The weight of a type of vertices; None if it has none."""
        weight = getattr(self, name)
        if isinstance(weight, nn.ParameterDict):
            return weight.get(_key(kind))
        return weight

    def own(self, kind: str, x: Tensor | None) -> Tensor:
        """What a type's vertices have of their own rows; None: one-hot rows."""
        root = self.of("root", kind)
        return (root if x is None else x @ root) + self.of("bias", kind)

    def relation(self, source: str, k: int, of_source: int) -> Tensor | None:
        """The weight of relation k, rows × columns, which is the of_source-th relation from a type."""
        weight = self.of("weight", source)
        if weight is None:
            return None
        if isinstance(self.comp, nn.Parameter):
            return torch.einsum("b,bio->io", self.comp[k], weight)
        matrix = weight[of_source if isinstance(self.weight, nn.ParameterDict) else k]
        return torch.block_diag(*matrix) if self.blocks else matrix


def _predicted(rows: Weights, types: list[str]) -> Tensor | Weights:
    """The rows of the types that the run predicts, a dictionary of several types."""
    return rows[types[0]] if len(types) == 1 else {t: rows[t] for t in types}


class Perceptron(nn.Module):
    """Linear layers under the names of PyG's MLP, with residual connections if the run has them, then rounds of APPNP."""

    def __init__(self, s: SimpleNamespace, weights: Weights):
        if s.decoupled and s.model != "gcn":
            raise Refused(
                f"decoupled: PyG has no rounds of {s.model}'s aggregation; take a decoupled gcn, or appnp, for to_pyg"
            )
        super().__init__()
        widths = [weights["lins.0.weight"].shape[1], *[s.hidden] * (s.layers - 1), s.outputs]
        self.lins = nn.ModuleList(nn.Linear(read, out) for read, out in pairwise(widths))
        self.norms = nn.ModuleList(_NORMS[s.norm](s.hidden) or nn.Identity() for _ in range(s.layers - 1))
        self.act, self.dropout, self.residual = (
            _ACTIVATIONS[s.activation](),
            nn.Dropout(s.dropout),
            s.residual,
        )
        self.propagation = None
        if s.decoupled:
            self.propagation = APPNP(s.rounds or s.layers, s.teleport)
        elif s.model == "appnp":
            self.propagation = APPNP(s.rounds or 10, s.alpha)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | None = None,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_type: Tensor | None = None,
    ) -> Tensor:
        for i, norm in enumerate(self.norms):
            z = self.dropout(self.act(norm(self.lins[i](x))))
            x = x + z if self.residual and i > 0 else z
        z = self.lins[-1](x)
        return z if self.propagation is None else self.propagation(z, edge_index, edge_weight)


class TypedPerceptron(Perceptron):
    """A perceptron on a graph of several types: it reads the rows of the type that the run predicts."""

    def __init__(self, s: SimpleNamespace, weights: Weights):
        super().__init__(s, weights)
        self.predicted = s.predicted[0]

    def forward(  # type: ignore[override]
        self,
        x_dict: Weights | Tensor,
        edge_index_dict: Any = None,
        edge_weight_dict: Any = None,
        edge_attr_dict: Any = None,
        edge_type: Tensor | None = None,
    ) -> Tensor:
        """The rows of the type that the run predicts, given those by type or alone."""
        return super().forward(x_dict[self.predicted] if isinstance(x_dict, dict) else x_dict)


class GCNII(nn.Module):
    """PyG's GCN2Conv between two linear layers, as in its example gcn2_cora.py."""

    def __init__(self, s: SimpleNamespace, weights: Weights):
        super().__init__()
        self.lins = nn.ModuleList(
            [nn.Linear(weights["lins.0.weight"].shape[1], s.hidden), nn.Linear(s.hidden, s.outputs)]
        )
        self.convs = nn.ModuleList(
            GCN2Conv(s.hidden, s.alpha, s.theta, i + 1, s.shared_weights) for i in range(s.layers)
        )
        self.act, self.dropout = _ACTIVATIONS[s.activation](), nn.Dropout(s.dropout)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_type: Tensor | None = None,
    ) -> Tensor:
        x_0 = self.act(self.lins[0](x))
        x = self.dropout(x_0)
        for conv in self.convs:
            x = self.dropout(self.act(conv(x, x_0, edge_index, edge_weight)))
        return self.lins[1](x)


def _hidden_convolution(s: SimpleNamespace, weights: Weights, path: str) -> nn.Module:
    """A convolution between the encoder and the decoder."""
    return (Both if s.direction == "both" else _convolution)(s, weights, path, s.hidden, False)


class ResGCN(nn.Module):
    """PyG's DeepGCNLayer of SAGEConv between two linear layers, as in its example ogbn_proteins_deepgcn.py."""

    def __init__(self, s: SimpleNamespace, weights: Weights):
        super().__init__()
        self.node_encoder, self.lin = (
            nn.Linear(weights["node_encoder.weight"].shape[1], s.hidden),
            nn.Linear(s.hidden, s.outputs),
        )
        sage = SimpleNamespace(**vars(s) | {"model": "sage", "aggregation": "mean"})
        self.layers = nn.ModuleList(
            DeepGCNLayer(
                _hidden_convolution(sage, weights, f"layers.{i}.conv"),
                _NORMS[s.norm](s.hidden),
                _ACTIVATIONS[s.activation](),
                block="res+",
                dropout=s.dropout,
            )
            for i in range(s.layers)
        )

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_type: Tensor | None = None,
    ) -> Tensor:
        first = self.layers[0]
        x = first.conv(self.node_encoder(x), edge_index)
        for layer in self.layers[1:]:
            x = layer(x, edge_index)
        x = first.act(x if first.norm is None else first.norm(x))
        return self.lin(F.dropout(x, first.dropout, self.training))


class Blocks(nn.Module):
    """The residual blocks of Platonov et al. (2023) around PyG's convolutions."""

    def __init__(self, s: SimpleNamespace, weights: Weights):
        super().__init__()
        self.encoder, self.decoder = (
            nn.Linear(weights["encoder.weight"].shape[1], s.hidden),
            nn.Linear(s.hidden, s.outputs),
        )
        self.convs = nn.ModuleList(_hidden_convolution(s, weights, f"convs.{i}") for i in range(s.layers))
        self.norms = nn.ModuleList(_NORMS[s.norm](s.hidden) or nn.Identity() for _ in range(s.layers + 1))
        maps = ["0", "1"] if s.model == "gat" else ["1"]
        self.feed_forwards = nn.ModuleList(
            nn.ModuleDict({"lins": nn.ModuleDict({k: nn.Linear(s.hidden, s.hidden) for k in maps})})
            for _ in range(s.layers)
        )
        self.act, self.dropout, self.takes = _ACTIVATIONS[s.activation](), nn.Dropout(s.dropout), _taken(s)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_weight: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_type: Tensor | None = None,
    ) -> Tensor:
        given = _given(self.takes, edge_weight, edge_attr, edge_type)
        x = self.dropout(self.act(self.encoder(x)))
        for norm, conv, feed_forward in zip(self.norms, self.convs, self.feed_forwards):
            z, lins = conv(norm(x), edge_index, **given), feed_forward["lins"]
            if "0" in lins:
                z = lins["0"](z)
            x = x + self.dropout(lins["1"](self.dropout(self.act(z))))
        return self.decoder(self.norms[-1](x))


# Weights of a run that are not of the net, and the attributes of Model that have them.
_AROUND = {
    "features.mean": "mean",
    "features.deviation": "deviation",
    "target.mean": "target_mean",
    "target.deviation": "target_deviation",
    "decoder.weight": "decoder",
}


class Model(nn.Module):
    """A model of PyG's layers, ``net``, with what the run does before and after it.

    It takes what ``net`` takes (:func:`to_pyg`), with the features and the edges as the run's graph has them.

    Attributes:
        net: the model.
        weighted: ``net`` reads weights of the edges, and refuses to go without.
        reverse: edges are used from target to source.
        normalize: "row" divides each vertex's features by their sum, "standard" subtracts ``mean`` and divides
            by ``deviation``, column by column; "none". Columns behind the features are left as they are.
        embed: the rows of the types of vertices without features, float32, vertices × columns, by type.
        target_mean, target_deviation: the result is mean + deviation · ``net``'s, column by column; or None.
        decoder: the weights of a link prediction's scores, relations × columns, which the model keeps and does not
            use; or None.
    """

    def __init__(
        self,
        net: nn.Module,
        weighted: bool = False,
        reverse: bool = False,
        normalize: str = "none",
        mean: Tensor | None = None,
        deviation: Tensor | None = None,
        labels: int = 0,
        embed: Weights | None = None,
        decoder: Tensor | None = None,
        target_mean: Tensor | None = None,
        target_deviation: Tensor | None = None,
    ):
        super().__init__()
        self.net, self.weighted, self.reverse, self.normalize, self.labels = (
            net,
            weighted,
            reverse,
            normalize,
            labels,
        )
        self.bare = list(embed or {})
        self.embed = nn.ParameterDict(
            {_key(name): nn.Parameter(rows) for name, rows in (embed or {}).items()}
        )
        for name, values in (
            ("mean", mean),
            ("deviation", deviation),
            ("target_mean", target_mean),
            ("target_deviation", target_deviation),
            ("decoder", decoder),
        ):
            self.register_buffer(name, values)

    @staticmethod
    def taken(s: SimpleNamespace, weights: Weights) -> dict[str, Any]:
        """Takes from the weights what is not the net's, and returns it as arguments; none if the net is all."""
        arguments: dict[str, Any] = {}
        if s.weighted:
            arguments["weighted"] = True
        if s.direction == "out":
            arguments["reverse"] = True
        normalize = s.normalize_features
        if normalize == "auto":
            normalize = "standard" if "features.mean" in weights else "none"
        if normalize != "none":
            arguments["normalize"] = normalize
            arguments["labels"] = s.outputs if s.label_input else 0
        for key, name in _AROUND.items():
            if key in weights and (name != "decoder" or s.task == "link" and s.decoder == "distmult"):
                arguments[name] = weights.pop(key)
        embed = {t: weights.pop(f"embed.{_key(t)}.weight") for t in s.embedded}
        if embed:
            arguments["embed"] = embed
        return arguments

    @staticmethod
    def inside(weight: str, arguments: dict[str, Any]) -> str:
        """What a weight of a run is called in the model of these arguments."""
        if weight.startswith("embed."):
            return weight.removesuffix(".weight")
        return _AROUND[weight] if _AROUND.get(weight) in arguments else "net." + weight

    def forward(
        self, x: Any, edge_index: Any = None, edge_weight: Any = None, *more: Any, **named: Any
    ) -> Any:
        edge_weight = named.pop("edge_weight_dict", edge_weight)
        if self.weighted and edge_weight is None:
            raise Refused("edge_weight: the run's graph has weights; give those of the edges")
        if isinstance(x, dict):
            x = {name: self._scaled(rows) for name, rows in x.items()} | {
                name: self.embed[_key(name)] for name in self.bare
            }
        else:
            x = self._scaled(x) if not self.embed else next(iter(self.embed.values()))
            edge_index = edge_index.flip([0]) if self.reverse and edge_index is not None else edge_index
        z = self.net(x, edge_index, edge_weight, *more, **named)
        return z if self.target_mean is None else self.target_mean + self.target_deviation * z

    def _scaled(self, x: Tensor | None) -> Tensor | None:
        if x is None or self.normalize == "none":
            return x
        x, labels = x[:, : x.shape[1] - self.labels], x[:, x.shape[1] - self.labels :]
        if self.normalize == "row":
            total = x.sum(1, keepdim=True, dtype=torch.float64)
            x = x / torch.where(total == 0, 1, total).to(x.dtype)
        else:
            x = (x - self.mean) / self.deviation
        return torch.cat([x, labels], 1)

    def extra_repr(self) -> str:
        notes = []
        if self.weighted:
            notes.append("weighted=True")
        if self.normalize != "none":
            notes.append(f"normalize={self.normalize!r}")
        if self.reverse:
            notes.append("reverse=True")
        if self.embed:
            notes.append(f"embed={self.bare}")
        if self.target_mean is not None:
            notes.append("target_mean + target_deviation * net")
        return ", ".join(notes)
