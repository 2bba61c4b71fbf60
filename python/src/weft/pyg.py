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
from functools import partial
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from ._errors import Refused

if TYPE_CHECKING:
    from ._run import Run

try:
    import torch
    import torch_geometric.nn as g
except ImportError as e:
    raise ImportError(
        f"to_pyg: {e.name} is not installed; pip install torch torch_geometric", name=e.name
    ) from None

from torch import Tensor, nn

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
    "batch": g.BatchNorm,
    "layer": lambda width: g.LayerNorm(width, mode="node"),
    "graph": g.GraphNorm,
    "pair": lambda width: g.PairNorm(),
}


class _Convolution(NamedTuple):
    """What PyG's convolution is made of: the settings, the weights of a layer, and the columns that it computes."""

    s: SimpleNamespace
    weights: Weights
    path: str
    out: int
    last: bool = False  # it computes the logits
    typed: bool = False  # it is one of several relations

    @property
    def made(self) -> nn.Module:
        return KINDS[self.s.model].make(self)

    @property
    def reads(self) -> tuple[int, int]:
        """The columns of the rows that it reads, of an edge's source and target."""
        kind, columns = KINDS[self.s.model], []
        for names in kind.reads:
            weights = (self.weights.get(f"{self.path}.{name}") for name in names.split("|"))
            columns += [weight.shape[kind.axis] for weight in weights if weight is not None]
        return (columns[0], columns[-1]) if columns else (0, 0)

    @property
    def ends(self) -> int | tuple[int, int]:
        return self.reads if self.typed else self.reads[0]

    @property
    def perceptron(self) -> g.models.MLP:
        act, norm = _ACTIVATIONS[self.s.activation](), _NORMS[self.s.norm](self.out)
        return g.models.MLP([self.reads[0], self.out, self.out], act=act, norm=norm)


def _sage(c: _Convolution) -> nn.Module:
    root = f"{c.path}.lin_r.weight" in c.weights
    return g.SAGEConv(c.ends, c.out, aggr=c.s.aggregation, root_weight=root)


def _gat(c: _Convolution, conv: type[nn.Module], **more: Any) -> nn.Module:
    """A convolution of graph attention."""
    heads, concat = (c.s.output_heads, False) if c.last else (c.s.heads, True)
    if (edges := f"{c.path}.lin_edge.weight") in c.weights:
        more["edge_dim"] = c.weights[edges].shape[1]
    if conv is not g.TransformerConv:
        more["add_self_loops"] = not c.typed
    width = c.out // heads if concat else c.out
    return conv(c.ends, width, heads=heads, concat=concat, dropout=c.s.attention_dropout, **more)


def _rgcn(c: _Convolution) -> nn.Module:
    relations = c.weights[f"{c.path}.comp" if c.s.bases else f"{c.path}.weight"].shape[0]
    bases, blocks = c.s.bases or None, c.s.num_blocks or None
    return g.RGCNConv(c.reads[0], c.out, relations, num_bases=bases, num_blocks=blocks)


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


_BOTH = ("lin_l.weight", "lin_r.weight")
_ENDS = ("lin.weight|lin_src.weight", "lin.weight|lin_dst.weight")
KINDS = {
    "mlp": _Kind(),
    "gcn": _Kind(lambda c: g.GCNConv(c.reads[0], c.out, add_self_loops=not c.typed), ("lin.weight",), g.models.GCN, "edge_weight"),
    "sage": _Kind(_sage, _BOTH, g.models.GraphSAGE),
    "gat": _Kind(lambda c: _gat(c, g.GATConv), _ENDS, g.models.GAT),
    "gatv2": _Kind(lambda c: _gat(c, g.GATv2Conv), _BOTH, g.models.GAT),
    "transformer": _Kind(lambda c: _gat(c, g.TransformerConv), ("lin_key.weight", "lin_query.weight")),
    "gin": _Kind(lambda c: g.GINConv(c.perceptron), ("nn.lins.0.weight",), g.models.GIN),
    "gine": _Kind(
        lambda c: g.GINEConv(c.perceptron, edge_dim=c.weights[f"{c.path}.lin.weight"].shape[1]),
        ("nn.lins.0.weight",),
        takes="edge_attr",
    ),
    "pna": _Kind(lambda c: g.PNAConv(c.reads[0], c.out, **_PNA), ("pre_nns.0.0.weight",), g.models.PNA, axis=0),
    "rgcn": _Kind(_rgcn, ("root",), axis=0, takes="edge_type"),
    "gcnii": _Kind(takes="edge_weight"),
    "resgcn": _Kind(),
    "appnp": _Kind(takes="edge_weight"),
    "sgc": _Kind(lambda c: g.SGConv(c.reads[0], c.out, K=c.s.rounds or 2), ("lin.weight",), takes="edge_weight"),
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
    if s.task == "edge":
        raise Refused("to_pyg: PyG has no model with a decoder of edges; run.state_dict() has the weights")
    if s.model not in KINDS:
        raise Refused(
            f"model {s.model}: has no counterpart of PyG's layers; those that have one are {', '.join(KINDS)}"
        )
    graph = run.summary["graph"]
    s.types, s.relations = graph.get("types", []), graph.get("relations", [])
    s.predicted = [t["type"] for t in run.summary.get("links", {}).get("types", [])] or s.types[:1]
    s.takes = "edge_attr" if s.use_edge_features else KINDS[s.model].takes
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
    if s.relations and s.model not in ("rgcn", "mlp"):
        return TypedLayers(s, weights)
    if s.types[1:] and s.model == "rgcn":
        return TypedRGCN(s, weights)
    if s.model in ("mlp", "appnp") or s.decoupled:
        return Perceptron(s, weights)
    if s.blocks == "residual":
        return Blocks(s, weights)
    made = {"gcnii": GCNII, "resgcn": ResGCN}.get(s.model)
    return made(s, weights) if made else _basic(s, weights) or Layers(s, weights)


def _basic(s: SimpleNamespace, weights: Weights) -> nn.Module | None:
    """PyG's own model with the run's convolutions, or None where its forward computes something else."""
    own = KINDS[s.model].own
    if own is None or s.residual or s.direction == "both" or s.use_edge_features:
        return None
    reads, more = _Convolution(s, weights, "convs.0", 0).reads[0], {**_PNA} if own is g.models.PNA else {}
    more |= {"dropout": s.dropout, "act": _ACTIVATIONS[s.activation](), "norm": _NORMS[s.norm](s.hidden)}
    net = own(reads, s.hidden, s.layers, s.outputs, jk=s.jk, **more)
    # PyG's last layer has as many heads as the others, and their coefficients its dropout.
    net.convs = _convolutions(s, weights)
    return net


def _convolutions(s: SimpleNamespace, weights: Weights) -> nn.ModuleList:
    """All convolutions of a model without encoder and decoder."""
    layers = 1 if s.model == "sgc" else s.layers
    hidden = layers if s.jk else layers - 1
    outs = [s.hidden] * hidden + [s.outputs] * (layers - hidden)
    all = (_Convolution(s, weights, f"convs.{i}", out, last=i >= hidden) for i, out in enumerate(outs))
    return nn.ModuleList(map(_directed, all))


def _directed(c: _Convolution) -> nn.Module:
    """The convolution along the edges, or in both directions."""
    return Both(c) if c.s.direction == "both" and c.s.model != "rgcn" else c.made


def _norm_of(s: SimpleNamespace) -> nn.Module:
    return _NORMS[s.norm](s.hidden) or nn.Identity()


_MISSING = {
    "edge_attr": "the features of the edges, edges × columns",
    "edge_type": "the number of each edge's relation, from 0",
}


def _given(takes: str | None, value: Tensor | None) -> dict[str, Tensor]:
    """The argument that the convolutions take. Only weights may be left out."""
    if value is None and takes in _MISSING:
        raise Refused(f"{takes}: the run's model reads it; give {_MISSING[takes]}")
    if value is not None and takes == "edge_attr" and value.dim() == 1:  # one column, as in the run
        value = value[:, None]
    return {} if takes is None or value is None else {takes: value}


def _numbered(edge_type: Tensor | None, count: int) -> Tensor:
    """The numbers of edges' relations. Refuses those that the run does not have."""
    numbers = _given("edge_type", edge_type)["edge_type"]
    if len(numbers) > 0 and (top := int(numbers.max())) >= count:
        raise Refused(
            f"edge_type: the run has {count} relations, and a number is {top}; number them from 0, as the run's graph lists them"
        )
    return numbers


class Both(g.DirGNNConv):
    """PyG's DirGNNConv, whose convolutions also get the weights of the edges."""

    def __init__(self, c: _Convolution):
        conv = c._replace(path=c.path + ".conv_in").made
        columns = c.weights[c.path + ".lin.weight"].shape[1]
        if not hasattr(conv, "in_channels"):  # DirGNNConv reads them, and GINConv has none
            conv.in_channels, conv.out_channels = columns, c.out
        super().__init__(conv)
        self.lin = nn.Linear(columns, c.out)  # DirGNNConv's has the width of one head
        if c.s.model == "transformer":  # DirGNNConv switches the map off, and keeps it
            self.conv_in.lin_skip = self.conv_out.lin_skip = None

    def forward(self, x: Tensor, edge_index: Tensor, **given: Tensor) -> Tensor:
        x_in, x_out = self.conv_in(x, edge_index, **given), self.conv_out(x, edge_index.flip([0]), **given)
        return 0.5 * x_in + 0.5 * x_out + self.lin(x)


class Called(nn.Module):
    """A module that is called with x and edge_index, which may be named as the dictionaries that they are."""

    def __call__(self, *given: Any, **named: Any) -> Any:
        return super().__call__(*given, **{_PLAIN.get(name, name): value for name, value in named.items()})


_PLAIN = {"x_dict": "x", "edge_index_dict": "edge_index"}


class Net(Called):
    """What the modules of this file have in common: their call, and what stands between two layers."""

    def __init__(self, s: SimpleNamespace):
        super().__init__()
        self.act, self.dropout = _ACTIVATIONS[s.activation](), nn.Dropout(s.dropout)
        self.residual, self.takes, self.predicted = s.residual, s.takes, s.predicted

    def forward(
        self,
        x: Any,
        edge_index: Any = None,
        edge_weight: Any = None,
        edge_attr: Any = None,
        edge_type: Tensor | None = None,
        edge_weight_dict: Edges | None = None,
        edge_attr_dict: Edges | None = None,
    ) -> Any:
        values = {"edge_weight": edge_weight_dict or edge_weight, "edge_attr": edge_attr_dict or edge_attr}
        values["edge_type"] = edge_type
        return self.rows(x, edge_index, values.get(self.takes))

    def convolved(self, conv: nn.Module, edge_index: Any, given: Any, *x: Any) -> Any:
        return conv(*x, edge_index, **_given(self.takes, given))

    def between(self, x: Any, layers: Iterable[Callable[[Any], Any]]) -> list[Any]:
        """What each layer but the last gives: with norm, activation and dropout, and with residual connections its input."""
        outputs: list[Any] = []
        for norm, layer in zip(self.norms, layers):
            z = _each(lambda h: self.dropout(self.act(h)), norm(layer(x)))
            x = _each(torch.add, z, x) if self.residual and outputs else z
            outputs.append(x)
        return outputs


def _each(f: Callable[..., Tensor], z: Any, *more: Any) -> Any:
    """f of rows, or of those of each type."""
    return {t: f(z[t], *(m[t] for m in more)) for t in z} if isinstance(z, dict) else f(z, *more)


class Layers(Net):
    """PyG's convolutions, with norm, activation and dropout after each but the last.

    With residual connections the input of each of these but the first is added to its output. With jumping
    knowledge the last layer has norm, activation and dropout, too, and a linear layer reads the outputs of all.
    """

    def __init__(self, s: SimpleNamespace, weights: Weights):
        super().__init__(s)
        self.convs = _convolutions(s, weights)
        layers = len(self.convs)
        self.norms = nn.ModuleList(_norm_of(s) for _ in range(layers if s.jk else layers - 1))
        self.jk = g.JumpingKnowledge(s.jk) if s.jk else None
        self.lin = nn.Linear(s.hidden * layers if s.jk == "cat" else s.hidden, s.outputs) if s.jk else None

    def rows(self, x: Any, edge_index: Any, given: Any) -> Any:
        if self.takes == "edge_type":
            given = _numbered(given, self.convs[0].num_relations)
        layers = [partial(self.convolved, conv, edge_index, given) for conv in self.convs]
        outputs = self.between(x, layers)
        return self.lin(self.jk(outputs)) if self.jk else layers[-1](outputs[-1] if outputs else x)


class TypedLayers(Layers):
    """Layers for a graph of several types: a convolution for each relation, whose results are summed by target type.

    A layer has the relations that the run's result depends on. With one type of vertices the edges are in
    dictionaries or have numbers.
    """

    def __init__(self, s: SimpleNamespace, weights: Weights):
        Net.__init__(self, s)
        self.convs = nn.ModuleList(self.layer(s, weights, i) for i in range(s.layers))
        self.norms = nn.ModuleList(Norms(s, weights, i) for i in range(s.layers - 1))
        self.types, self.relations, self.jk = s.types, s.relations, None
        self.one = s.model == "gcn"  # its convolution takes the rows of one type

    def layer(self, s: SimpleNamespace, weights: Weights, i: int) -> nn.Module:
        convs, last = nn.ModuleDict(), i == s.layers - 1
        for r in map(_key, s.relations):
            if any(name.startswith(f"convs.{i}.{r}.") for name in weights):
                out = s.outputs if last else s.hidden
                convs[r] = _Convolution(s, weights, f"convs.{i}.{r}", out, last, typed=True).made
        return convs

    def forward(self, x: Any, edge_index: Any = None, edge_weight: Any = None, edge_attr: Any = None,
                edge_type: Tensor | None = None, **by_type: Any) -> Any:
        if not self.types[1:] and not isinstance(edge_index, dict):
            (kind,), numbers = self.types, _numbered(edge_type, len(self.relations))
            x, end = {kind: x}, len(kind) + len("__")
            names = [(kind, name[end:-end], kind) for name in self.relations]

            def divided(values: Tensor | None, at: Any = ()) -> Edges | None:
                return values if values is None else {r: values[(*at, numbers == k)] for k, r in enumerate(names)}

            edge_index = divided(edge_index, (slice(None),))
            edge_weight, edge_attr = divided(edge_weight), divided(edge_attr)
        return super().forward(x, edge_index, edge_weight, edge_attr, **by_type)

    def rows(self, x: Any, edge_index: Any, given: Any) -> Any:
        """The rows of the types that the run predicts, a dictionary of several types."""
        z = super().rows(x, edge_index, given)
        return z[self.predicted[0]] if len(self.predicted) == 1 else {t: z[t] for t in self.predicted}

    def convolved(self, conv: nn.ModuleDict, edge_index: Edges, given: Edges | None, x: Weights) -> Weights:
        sums: Weights = {}
        for r in _listed([r for r in self.relations if _key(r) in conv], edge_index):
            ends = x[r[0]] if self.one else (x[r[0]], x[r[2]])
            z = super().convolved(conv[_key("__".join(r))], edge_index[r], (given or {}).get(r), ends)
            sums[r[2]] = sums[r[2]] + z if r[2] in sums else z
        return sums


class Norms(nn.ModuleDict):
    """The norms of a layer by type of vertices: those of which the run has the weights, if they have some."""

    def __init__(self, s: SimpleNamespace, weights: Weights, i: int):
        norms = {_key(t): _norm_of(s) for t in sorted(s.types, key=_key)}
        read = {t for t in norms if any(name.startswith(f"norms.{i}.{t}.") for name in weights)}
        super().__init__({t: norm for t, norm in norms.items() if t in read or not norm.state_dict()})

    def forward(self, z: Weights) -> Weights:
        return {t: self[_key(t)](h) for t, h in z.items() if _key(t) in self}


def _listed(names: Iterable[str], edges: Edges) -> list[tuple[str, str, str]]:
    """The relations with these names. Raises Refused if one is missing."""
    given, names = {"__".join(r): r for r in edges}, list(names)
    if missing := [name for name in names if name not in given]:
        raise Refused(
            f"edge_index_dict: the run's model reads the relation {missing[0]}, and it is missing; give it, with no edges if it has none"
        )
    return [given[name] for name in names]


class TypedRGCN(TypedLayers):
    """R-GCN for several types of vertices: PyG's RGCNConv has one weight for the rows of all types.

    A relation's part is the mean of PyG's SimpleConv times the relation's weight. x_dict lacks the types
    without features, of which the first layer has rows of weights for each vertex.
    """

    def __init__(self, s: SimpleNamespace, weights: Weights):
        super().__init__(s, weights)
        self.takes, self.mean = None, g.SimpleConv(aggr="mean")

    def layer(self, s: SimpleNamespace, weights: Weights, i: int) -> nn.Module:
        return RelationWeights(s, weights, f"convs.{i}")

    def convolved(self, conv: RelationWeights, edge_index: Edges, given: None, x: Weights) -> Weights:
        z = {t: conv.own(t, x.get(t)) for t in self.types if conv.of("root", t) is not None}
        before = dict.fromkeys(self.types, 0)  # relations so far, by source type
        for k, r in enumerate(_listed(self.relations, edge_index)):
            weight = conv.relation(r[0], k, before[r[0]])
            before[r[0]] += 1
            if weight is None or r[2] not in z:  # the run's result does not depend on it
                continue
            mean = self.mean((x.get(r[0], weight), z[r[2]]), edge_index[r])
            z[r[2]] = z[r[2]] + (mean @ weight if r[0] in x else mean)
        return z


class RelationWeights(nn.Module):
    """The weights of a layer of :class:`TypedRGCN`: one for all types of vertices, or one for each."""

    def __init__(self, s: SimpleNamespace, weights: Weights, path: str):
        super().__init__()
        self.blocks = s.num_blocks
        for name in ("weight", "root", "bias", "comp"):
            if f"{path}.{name}" in weights:
                self.register_parameter(name, nn.Parameter(weights[f"{path}.{name}"]))
            else:
                of = {_key(t): weights.get(f"{path}.{name}.{_key(t)}") for t in s.types}
                of = {t: nn.Parameter(weight) for t, weight in of.items() if weight is not None}
                self.add_module(name, nn.ParameterDict(of))

    def of(self, name: str, kind: str) -> Tensor | None:
        """The weight of a type of vertices; None if it has none."""
        weight = getattr(self, name)
        return weight.get(_key(kind)) if isinstance(weight, nn.ParameterDict) else weight

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


class Perceptron(Net):
    """Linear layers under the names of PyG's MLP, with residual connections if the run has them, then rounds of APPNP.

    On a graph of several types it reads the rows of the type that the run predicts, by type or alone.
    """

    def __init__(self, s: SimpleNamespace, weights: Weights):
        if s.decoupled and s.model != "gcn":
            raise Refused(
                f"decoupled: PyG has no rounds of {s.model}'s aggregation; take a decoupled gcn, or appnp, for to_pyg"
            )
        super().__init__(s)
        widths = [weights["lins.0.weight"].shape[1], *[s.hidden] * (s.layers - 1), s.outputs]
        self.lins = nn.ModuleList(nn.Linear(read, out) for read, out in pairwise(widths))
        self.norms = nn.ModuleList(_norm_of(s) for _ in range(s.layers - 1))
        self.propagation = None
        if s.decoupled or s.model == "appnp":
            rounds = s.rounds or (s.layers if s.decoupled else 10)
            self.propagation = g.APPNP(rounds, s.teleport if s.decoupled else s.alpha)

    def rows(self, x: Any, edge_index: Any, given: Any) -> Tensor:
        x = x[self.predicted[0]] if isinstance(x, dict) else x
        z = self.lins[-1]([x, *self.between(x, self.lins)][-1])
        return z if self.propagation is None else self.convolved(self.propagation, edge_index, given, z)


class GCNII(Net):
    """PyG's GCN2Conv between two linear layers, as in its example gcn2_cora.py."""

    def __init__(self, s: SimpleNamespace, weights: Weights):
        super().__init__(s)
        self.lins = nn.ModuleList(_ends(s, weights, "lins.0"))
        self.convs = nn.ModuleList(
            g.GCN2Conv(s.hidden, s.alpha, s.theta, i + 1, s.shared_weights) for i in range(s.layers)
        )

    def rows(self, x: Tensor, edge_index: Tensor, given: Tensor | None) -> Tensor:
        x_0 = self.act(self.lins[0](x))
        x = self.dropout(x_0)
        for conv in self.convs:
            x = self.dropout(self.act(self.convolved(conv, edge_index, given, x, x_0)))
        return self.lins[1](x)


def _ends(s: SimpleNamespace, weights: Weights, encoder: str) -> tuple[nn.Linear, nn.Linear]:
    """The linear layers before and after hidden ones."""
    return nn.Linear(weights[encoder + ".weight"].shape[1], s.hidden), nn.Linear(s.hidden, s.outputs)


class ResGCN(Net):
    """PyG's DeepGCNLayer of SAGEConv between two linear layers, as in its example ogbn_proteins_deepgcn.py."""

    def __init__(self, s: SimpleNamespace, weights: Weights):
        super().__init__(s)
        self.node_encoder, self.lin = _ends(s, weights, "node_encoder")
        sage = SimpleNamespace(**vars(s) | {"model": "sage", "aggregation": "mean"})
        convs = (_directed(_Convolution(sage, weights, f"layers.{i}.conv", s.hidden)) for i in range(s.layers))
        more = {"block": "res+", "dropout": s.dropout}
        self.layers = nn.ModuleList(g.DeepGCNLayer(c, _NORMS[s.norm](s.hidden), self.act, **more) for c in convs)

    def rows(self, x: Tensor, edge_index: Tensor, given: None) -> Tensor:
        first = self.layers[0]
        x = first.conv(self.node_encoder(x), edge_index)
        for layer in self.layers[1:]:
            x = layer(x, edge_index)
        return self.lin(self.dropout(self.act(x if first.norm is None else first.norm(x))))


class Blocks(Net):
    """The residual blocks of Platonov et al. (2023) around PyG's convolutions."""

    def __init__(self, s: SimpleNamespace, weights: Weights):
        super().__init__(s)
        self.encoder, self.decoder = _ends(s, weights, "encoder")
        hidden = (_Convolution(s, weights, f"convs.{i}", s.hidden) for i in range(s.layers))
        self.convs = nn.ModuleList(map(_directed, hidden))
        self.norms = nn.ModuleList(_norm_of(s) for _ in range(s.layers + 1))
        maps = ["0", "1"] if s.model == "gat" else ["1"]
        self.feed_forwards = nn.ModuleList(
            nn.ModuleDict({"lins": nn.ModuleDict({k: nn.Linear(s.hidden, s.hidden) for k in maps})})
            for _ in range(s.layers)
        )

    def rows(self, x: Tensor, edge_index: Tensor, given: Tensor | None) -> Tensor:
        x = self.dropout(self.act(self.encoder(x)))
        for norm, conv, feed_forward in zip(self.norms, self.convs, self.feed_forwards):
            z, lins = self.convolved(conv, edge_index, given, norm(x)), feed_forward["lins"]
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


class Model(Called):
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

    def __init__(self, net: nn.Module, weighted: bool = False, reverse: bool = False, normalize: str = "none",
                 labels: int = 0, embed: Weights | None = None, **buffers: Tensor):
        super().__init__()
        self.net, self.weighted, self.reverse, self.normalize, self.labels = net, weighted, reverse, normalize, labels
        self.bare = list(embed or {})
        self.embed = nn.ParameterDict({_key(t): nn.Parameter(rows) for t, rows in (embed or {}).items()})
        for name in _AROUND.values():
            self.register_buffer(name, buffers.get(name))

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
        notes = {
            "weighted=True": self.weighted,
            f"normalize={self.normalize!r}": self.normalize != "none",
            "reverse=True": self.reverse,
            f"embed={self.bare}": self.bare,
            "target_mean + target_deviation * net": self.target_mean is not None,
        }
        return ", ".join(note for note, holds in notes.items() if holds)
