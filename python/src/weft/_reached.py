"""What the values of a program depend on: the operations and parameters that a gradient reaches, and a
program's part that ends at a layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ._errors import Refused


def reached_by(program: Mapping[str, Any], output: int) -> set[str]:
    """The parameters that a value of a program depends on, through which gradients go."""
    return {o[key] for o in operations_of(program, output) for key in ("name", "weight", "bias") if key in o}


def operations_of(program: Mapping[str, Any], output: int) -> Iterator[dict[str, Any]]:
    """The operations that a value of a program depends on, through which gradients go."""
    left, seen = [output], set[int]()
    while left:
        if (k := left.pop()) not in seen:
            seen.add(k)
            operation = program["operations"][k]
            yield operation
            left += [] if operation["op"] == "detach" else operation.get("in", [])


# What rows an operation has, where they are not those of what it reads.
_ROWS = {"parameter": "", "constant": "", "vertices": ""} | dict.fromkeys(
    ("row_sum", "row_mean", "row_max", "row_min"), ""
)
_ROWS |= dict.fromkeys(("features", "table", "scatter", "loop_values"), "vertices")
_ROWS |= dict.fromkeys(
    ("gather", "edge_features", "edge_weight", "with_loops", "without_loops", "edge_softmax"), "edges"
)


def until(program: Mapping[str, Any], layer: str) -> dict[str, Any]:
    """A program that ends at the output of a layer."""
    operations, rows = program["operations"], list[str]()
    for o in operations:
        read = [rows[k] for k in o.get("in", ())]
        rows.append(o.get("rows") or _ROWS.get(o["op"], next(filter(None, read), "")))
    found = [
        k
        for k, o in enumerate(operations)
        if f"{o.get('path', '')}.".startswith(f"{layer}.") and rows[k] == "vertices"
    ]
    if not found:
        names = sorted({path for o in operations if (path := o.get("path", "").partition("#")[0])})
        raise Refused(
            f"of={layer!r}: the module has no such layer with rows of vertices: it has {', '.join(names)}"
        )
    return {**program, "operations": operations[: found[-1] + 1], "output": found[-1]}
