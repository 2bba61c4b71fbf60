"""The names of weights: those of a run, and those in a module, whose dictionaries by type or relation take no
names with dots."""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

from torch import nn


def name_as_run(model: nn.Module, state: dict[str, Any], prefix: str, metadata: Any) -> None:
    """Gives the weights in a module's state the names that they have in the run."""
    moved = {prefix + name: state.pop(prefix + inside) for name, inside in model.weights_inside.items()}
    state.update(moved)


def name_as_module(model: nn.Module, state: dict[str, Any], prefix: str, *more: Any) -> None:
    """Gives weights with the run's names those that they have in the module."""
    inside = {prefix + name: prefix + inside for name, inside in model.weights_inside.items()}
    state.update({inside[name]: state.pop(name) for name in list(state) if name in inside})


_TAKEN = {*dir(nn.ModuleDict()), *dir(nn.ParameterDict())}


def key_of(name: str) -> str:
    """The name of a type or relation as a key of PyTorch's dictionaries: no dot, nor an attribute's name."""
    key = name.replace("%", "%25").replace(".", "%2E")
    return key + "%" if key in _TAKEN else key


def keys_of(s: SimpleNamespace, weights: Iterable[str]) -> dict[str, str]:
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
            keys[weight] = weight[:begin] + key_of(found["name"]) + weight[end:]
    return keys
