"""From forward to the operations of a program, in training or in evaluation: what each input of the exported
graph is, and `Lowering` through its nodes. `trace` calls it, and `_loss` for a function of logits and
labels."""

from __future__ import annotations

import math
from typing import Any

import sympy
import torch
from torch import Tensor, nn

from .. import _aten  # noqa: F401  its functions are those of Lowering
from .._copies import copied
from .._errors import Refused
from .._lowering import ALIASES, Lowering, writes_first
from .._values import Edges, Ends, Set, Value, Vertices
from .called import Called
from .checks import check_sizes, check_updates
from .export import exported
from .program import canonical_names
from .refusals import fixed_count, said_of

# What an operation that reads what is given is called.
_READS = {"x": "features", "edge_attr": "edge_features"}


def each(output: Any) -> list[Any]:
    """The outputs: one, or one of each vertex type."""
    return list(output) if isinstance(output, list) else [output]


def lower(called: Any, training: bool, trained: Lowering | None = None) -> tuple[Lowering, Any]:
    """The operations of a module in training, or in evaluation after that, and what it returns."""
    tensors = {id(t): t for t in (*called.parameters(), *called.buffers())}
    own = copied(called, tensors).train(training)
    for part in own.modules():
        if isinstance(part, nn.modules.batchnorm._NormBase) and part.momentum is None:
            part.momentum = math.nan  # else forward would read its counter
    graph, inputs = exported(own)
    to = Lowering({}, said_of)
    for to.node in graph.nodes:
        to.possible()
    for node, kind in inputs.items():
        spec = called.specs.get(kind) if isinstance(kind, str) else None
        if spec is not None:
            size = node.meta["val"].shape[spec.varies]
            if isinstance(size, int) or size.node.expr.is_number:
                raise fixed_count(graph, called) or Refused(
                    "model: forward works for one number of vertices or edges alone: take sizes from "
                    "x.size(0), and give a table with a row for each vertex, as an embedding is, as features"
                )
            to.rows[size.node.expr] = spec.rows
    to.ends = {name: (r.source, r.target) for name, r in called.schema.relations.items()}
    to.batches = set(called.schema.batches.values())
    for name, relation in called.schema.relations.items():
        if relation.source == relation.target:
            v, e = (
                [k for k, known in to.rows.items() if known == rows] or [sympy.Symbol(str(rows))]
                for rows in (Set("vertices", relation.source), Set("stored", name))
            )
            to.rows |= {sympy.expand(a + b): Set("added", name) for a in v for b in e}
    check_sizes(graph, to.rows, called.schema)
    to.training, to.frozen = training, set(trained.frozen if trained else ())
    to.draws = isinstance(called, Called)
    to.precisions = {t.dtype for t in (*called.parameters(), *called.tensors.values())}
    names, buffers = canonical_names(called.module), dict(own.named_buffers())
    saved = {k: names[k.removeprefix("module.")] for k in buffers if k.removeprefix("module.") in names}
    changed = {
        saved[k] for node, k in inputs.items() if isinstance(k, str) and k in saved and _is_written(node)
    }
    to.counters = changed if trained is None else set[str]()
    changed |= trained.updates.keys() if trained else set()
    for node, kind in inputs.items():
        if isinstance(kind, Tensor):
            to.env[node] = kind
        elif (spec := called.specs.get(kind)) is not None:
            rows, shape, _ = to.layout(node)
            if spec.what == "edge_index":
                to.env[node] = Edges(spec.rows)
            elif spec.what == "batch":
                to.env[node] = Ends(Set("stored", called.schema.batches[spec.type_name]), "target")
            elif spec.what == "n_id":
                to.env[node] = Vertices(spec.rows)
            elif spec.what == "table":
                to.env[node] = to.emit("table", (), rows, shape, name=names[spec.name], **rows.named)
            else:
                shapes = {} if spec.what == "edge_weight" else {"shape": list(shape)}
                to.env[node] = to.emit(
                    _READS.get(spec.what, spec.what), (), rows, shape, **shapes, **rows.named
                )
        elif (
            kind in buffers
            and _is_index(buffers[kind])
            and saved.get(kind) not in changed
            and not kind.endswith("num_batches_tracked")
        ):
            to.env[node] = buffers[kind].detach().clone()
        elif (name := kind.removeprefix("module.")) in names:
            to.env[node] = to.emit("parameter", (), None, node.meta["val"].shape, name=names[name])
        else:  # a buffer that is not saved
            to.env[node] = buffers[kind].detach().clone()
    to.state = {
        n: k.removeprefix("module.")
        for n, k in inputs.items()
        if isinstance(k, str) and k not in called.specs
    }
    to.state = {n: names.get(name, name) for n, name in to.state.items()}
    to.input_names = {
        n: called.specs[k].what for n, k in inputs.items() if isinstance(k, str) and k in called.specs
    }
    try:
        output = to.run(graph)
    except Refused as why:
        raise fixed_count(graph, called) or why from None
    check_updates(to, {saved[k] for k in saved})
    output = list(output) if isinstance(output, (list, tuple)) else output
    output = output[0] if isinstance(output, list) and len(output) == 1 else output
    fixed = any(isinstance(value, Value) and value.rows is None for value in each(output))
    if fixed and (why_fixed := fixed_count(graph, called)):
        raise why_fixed
    return to, output


def _is_written(node: Any) -> bool:
    """Whether an operation writes into what a node is, or into a view of it, also in a block under
    torch.no_grad."""
    for user in node.users:
        target, blocks = (
            user.target,
            [
                argument
                for argument in user.args
                if isinstance(argument, torch.fx.Node) and argument.op == "get_attr"
            ],
        )
        if isinstance(target, torch._ops.OpOverload):
            is_view = target._schema.name.split("::")[1] in ALIASES
            if user.args[0] is node and (writes_first(target) or (is_view and _is_written(user))):
                return True
        elif blocks:
            inner = getattr(node.graph.owning_module, blocks[0].target).graph.find_nodes(op="placeholder")
            if _is_written(inner[user.args.index(node) - user.args.index(blocks[0]) - 1]):
                return True
    return False


def _is_index(buffer: Tensor) -> bool:
    """Whether a buffer's numbers are whole, as those of columns are, and few enough for constants."""
    return not (buffer.is_floating_point() or buffer.is_complex()) and buffer.numel() <= 4096
