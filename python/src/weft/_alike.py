"""Random numbers that are all alike, of a module that is compared with its program."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ._lowering import DRAWS, operands

# What stands for each number that is drawn from [0, 1): as `_aten` makes of it those of other distributions.
UNIFORM = 0.3
_NORMAL = math.sqrt(-2 * math.log1p(-UNIFORM)) * math.cos(2 * math.pi * UNIFORM)
_EXPONENTIAL = -math.log1p(-UNIFORM)


class Alike(TorchDispatchMode):  # type: ignore[misc]
    """PyTorch draws the same number each time."""

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made, name = function(*args, **(kwargs or {})), function._schema.name.split("::")[1].removesuffix("_")
        if name not in DRAWS:
            return made
        return made.copy_(torch.as_tensor(_number(name, operands(function._schema, args, kwargs or {}))))


def _number(name: str, arguments: dict[str, Any]) -> Any:
    if name == "bernoulli":
        p = arguments.get("p")
        return UNIFORM < (arguments["self"] if p is None else p)
    if name.startswith("normal"):
        return arguments.get("mean", arguments.get("self")) + _NORMAL * arguments.get("std", 1.0)
    if name.startswith("randn"):
        return _NORMAL
    if name == "exponential":
        return _EXPONENTIAL / arguments.get("lambd", 1.0)
    low, high = (
        arguments.get("from", arguments.get("low", 0.0)),
        arguments.get("to", arguments.get("high", 1.0)),
    )
    made = low + (high - low) * UNIFORM
    return math.floor(made) if name.startswith("randint") else made
