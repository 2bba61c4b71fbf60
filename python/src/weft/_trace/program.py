"""The program that `trace` returns: JSON of the operations that its outputs depend on, and the arrays of the
module's state."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .._lowering import Lowering
from .._values import Value, kind_of
from .schema import Schema


@dataclass(frozen=True)
class Program:
    """A model as data: text is JSON, and state has the arrays of the module by their names in its
    state_dict."""

    text: str
    state: dict[str, np.ndarray[Any, Any]]
    shape: tuple[int, ...]  # of a row of the output


def used(to: Lowering, outputs: list[int]) -> tuple[list[dict[str, Any]], list[int]]:
    """The operations that outputs depend on, and the outputs' numbers among them."""
    used: set[int] = set()
    left = list(outputs)
    while left:
        if (k := left.pop()) not in used:
            used.add(k)
            left += to.operations[k].get("in", [])
    number = {k: n for n, k in enumerate(sorted(used))}
    operations = [
        to.operations[k]
        | ({"in": [number[i] for i in to.operations[k]["in"]]} if "in" in to.operations[k] else {})
        for k in sorted(used)
    ]
    return operations, [number[k] for k in outputs]


def program_of(module: nn.Module, schema: Schema, to: Lowering, outputs: list[Value]) -> Program:
    operations, found = used(to, [value.op for value in (*outputs, *to.updates.values())])
    of_edges = [k for k, output in zip(found, outputs) if kind_of(output.rows) == "stored"]
    last, *others = found[: len(outputs) - len(of_edges)]
    updates = [{"name": name, "value": k} for name, k in zip(to.updates, found[len(outputs) :])]
    names = {o["name"] for o in operations if o["op"] in ("parameter", "table")} | to.updates.keys()
    for o in operations:
        names |= {
            o[k]
            for k in ("weight", "bias", "mean", "variance", "batches")
            if o["op"] == "batch_norm" and k in o
        }
    state = module.state_dict(keep_vars=True)
    canonical = canonical_names(module)
    parameters = [
        {"name": n, "shape": list(state[n].shape), "trained": bool(state[n].requires_grad)}
        for n in state
        if n in names
    ]
    relations = [
        {"name": name, "source": r.source, "target": r.target} for name, r in schema.relations.items() if name
    ]
    text = json.dumps(
        {
            "version": 1,
            "class": type(module).__name__,
            **({"relations": relations} if relations else {}),
            "parameters": parameters,
            "operations": operations,
            "output": last,
            **({"others": others} if others else {}),
            **({"edge_outputs": of_edges} if of_edges else {}),
            **({"updates": updates} if updates else {}),
        }
    )
    arrays = {
        n: t.detach().cpu().to(torch.float32).numpy() for n, t in state.items() if canonical.get(n) == n
    }
    return Program(text, arrays, outputs[0].shape)


def canonical_names(module: nn.Module) -> dict[str, str]:
    """The first name of each tensor in the state_dict, by all its names."""
    first: dict[Any, str] = {}
    names = {}
    for name, t in module.state_dict(keep_vars=True).items():
        if isinstance(t, Tensor):
            names[name] = first.setdefault((t.data_ptr(), t.shape, t.stride()) if t.numel() else id(t), name)
    return names
