"""`to_pyg`: the network for a run's settings, with its weights. `Run.to_pyg` calls it."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import torch
import torch_geometric.nn as g
from torch import nn

from .._arrays import Array
from .._errors import Refused
from .kinds import ACTIVATIONS, KINDS, NORMS, PNA, Convolution, Weights
from .layers import Layers, convolutions_of
from .model import Model
from .names import keys_of, name_as_module, name_as_run
from .networks import GCNII, Blocks, Perceptron, ResGCN
from .typed import TypedLayers, TypedRGCN


class Trained(Protocol):
    """What to_pyg asks of a run, a :class:`weft.Run`."""

    directory: Path

    @property
    def settings(self) -> dict[str, str]: ...

    @property
    def summary(self) -> dict[str, Any]: ...

    def state_dict(self) -> dict[str, Array]: ...


def to_pyg(run: Trained) -> nn.Module:
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
    ``edge_weight`` (float32, edges; gcn, gcnii, appnp, sgc) and ``edge_attr`` (float32, edges × columns;
    gine, and ``use_edge_features`` of gat, gatv2 and transformer). rgcn needs ``edge_type`` (int64, edges):
    the number of each edge's relation, from 0, in the order of ``run.summary["graph"]["relations"]``. It is
    the ``edge_type`` of a ``Data`` in which each type occurs.

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
    state = run.state_dict()
    if not s.types and any(re.match(r"convs\.0\.(\w+__|(weight|root)\.)", name) for name in state):
        raise Refused(
            f"{run.directory}: is of a weft that did not record the types of the graph in run.json; train "
            "again"
        )
    s.embedded = [name[len("embed.") : -len(".weight")] for name in state if name.startswith("embed.")]
    keys = keys_of(s, state)
    weights = {keys[name]: torch.from_numpy(values) for name, values in state.items()}
    around = Model.taken(s, weights)
    net = _network(s, weights)
    net.load_state_dict(weights)
    model = Model(net, **around) if around else net
    inside = {name: Model.inside(key, around) if around else key for name, key in keys.items()}
    if any(name != key for name, key in inside.items()):
        model.weights_inside = inside
        model._register_state_dict_hook(name_as_run)
        model._register_load_state_dict_pre_hook(name_as_module, with_module=True)
    return model.eval()


def _value(text: str) -> Any:
    """A setting's value from its text in run.json."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return {"true": True, "false": False}.get(text, text)


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
    reads, more = Convolution(s, weights, "convs.0", 0).reads[0], {**PNA} if own is g.models.PNA else {}
    more |= {"dropout": s.dropout, "act": ACTIVATIONS[s.activation](), "norm": NORMS[s.norm](s.hidden)}
    net = own(reads, s.hidden, s.layers, s.outputs, jk=s.jk, **more)
    # PyG's last layer has as many heads as the others, and their coefficients its dropout.
    net.convs = convolutions_of(s, weights)
    return net
