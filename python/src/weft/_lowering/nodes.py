"""What a node of the exported graph says: its operands by name, the sizes of what it makes, the layer and the
line of source that it comes from."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import sympy

from .._library import is_library_file


def writes_first(target: Any) -> bool:
    """Whether an operation writes in its first operand. Batch norms write in others: their statistics."""
    alias = target._schema.arguments[0].alias_info if target._schema.arguments else None
    return bool(alias and alias.is_write)


def free_sizes(node: Any) -> list[sympy.Expr]:
    """The sizes of what a node makes that are no numbers."""
    made = node.meta["val"]
    sizes = (made[0] if isinstance(made, (list, tuple)) else made).shape
    return [sympy.expand(n.node.expr) for n in sizes if not isinstance(n, int) and n.node.expr.free_symbols]


def every(*nested: Any) -> list[Any]:
    found: list[Any] = []
    for v in nested:
        found += (
            every(*(v.values() if isinstance(v, dict) else v)) if isinstance(v, (list, tuple, dict)) else [v]
        )
    return found


_OF_MEMORY = set(
    "out dtype layout device pin_memory memory_format non_blocking copy half_to_float out_int32".split()
)


def operands(schema: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Operands by their names in the schema, without those that change no value."""
    named = dict(zip((a.name for a in schema.arguments), args)) | kwargs
    known = [a for a in schema.arguments if a.name in named or a.has_default_value()]
    return {a.name: named.get(a.name, a.default_value) for a in known if a.name not in _OF_MEMORY}


def path_of(node: Any) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    return (
        next((str(path) for path, _ in reversed(stack.values())), "").removeprefix("module").removeprefix(".")
    )


# How often a step computes what these files call: their backward passes compute it again, and that of a
# reversible block also inverts it.
_RECOMPUTES = {
    "torch/utils/checkpoint.py": 2,
    "torch_geometric/nn/models/rev_gnn.py": 3,
    "dgl/nn/pytorch/conv/grouprevres.py": 3,
}


def times_of(node: Any) -> int:
    """How often a step of training computes a node: batch norm counts each time."""
    trace = node.meta.get("stack_trace") or ""
    return max((times for file, times in _RECOMPUTES.items() if f'/{file}"' in trace), default=1)


def line_of(node: Any) -> str:
    """The last line that is the user's own, or else the last line."""
    frames = re.findall(r'File "([^"]+)", line (\d+), in .*\n\s*(.*)', node.meta.get("stack_trace") or "")
    own = [f for f in frames if not is_library_file(f[0])] or frames
    return f"{os.path.basename(own[-1][0])}:{own[-1][1]}: {own[-1][2].strip()}" if own else ""


def bounds(bounds: Sequence[Any], size: int) -> tuple[int, int]:
    start, stop, _ = slice(*(None if b is None else int(b) for b in (*bounds, None, None)[:2])).indices(size)
    return start, max(start, stop)
