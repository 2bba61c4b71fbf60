"""What is refused of a module that could be lowered: a course that depends on the graph's size, a buffer that
forward changes, and what is no output. `lower` and `trace` call these."""

from __future__ import annotations

import os
import traceback
from collections.abc import Mapping
from typing import Any

import sympy

from .._errors import Refused
from .._library import is_library_file
from .._lowering import KEEPS, Lowering
from .._values import Set, Value, kind_of
from .schema import Schema


def check_updates(to: Lowering, buffers: set[str]) -> None:
    """Refuses buffers that depend on more than buffers and numbers. Batch norms count their own steps."""
    for o in to.operations:
        to.updates.pop(o.get("batches", ""), None)
    for name, value in to.updates.items():
        value = to.updates[name] = to.value(value)
        left = [value.op]
        while left:
            o = to.operations[left.pop()]
            others = o["op"] in ("vertices", "row_sum", "row_mean", "row_max", "row_min", "uniform")
            if (
                others
                or (o["op"] == "parameter" and o["name"] not in buffers)
                or to.shapes[value.op].rows is not None
            ):
                raise Refused(f"model: {o.get('line', '')}: forward changes {name}: {KEEPS}")
            left += o.get("in", ())


# Numbers of vertices and of edges: of the small graphs on which a program is compared with its module, and of
# a large one.
SMALL, _LARGE = ((19, 47), (32, 38)), (4_000_007, 90_000_001)


def check_sizes(graph: Any, rows: Mapping[Any, Any], schema: Schema) -> None:
    """Refuses a forward that takes another course on a graph of another size. The trace has noted the
    conditions on sizes under which it holds."""
    values = [node.meta.get("val") for node in graph.nodes if node.op == "placeholder"]
    conditions = next((value.fake_mode.shape_env for value in values if hasattr(value, "fake_mode")), None)
    counts = {Set("vertices", name): n for name, n in schema.vertices.items()}
    counts |= {Set("stored", name): relation.edges for name, relation in schema.relations.items()}
    symbols = {e: row_set for e, row_set in rows.items() if e.is_Symbol and row_set in counts}
    small = [
        {row_set: pair[row_set.kind == "stored"] + 4 * k for k, row_set in enumerate(counts)}
        for pair in (*SMALL, _LARGE)
    ]
    for guard in getattr(conditions, "guards", ()):
        for sizes in ({row_set: n or small[0][row_set] for row_set, n in counts.items()}, *small):
            if (
                guard.expr.subs({symbol: sizes[row_set] for symbol, row_set in symbols.items()})
                == sympy.false
            ):
                raise Refused(
                    f"model: {_place_of(guard)}forward takes another course at other numbers of vertices or "
                    "edges: write it for all of them, as by torch.where, or decide it before training, as an "
                    "attribute of the module"
                )


def _place_of(guard: Any) -> str:
    """The line of source that a condition on sizes comes from, as file:line: ."""
    sloc = getattr(guard, "sloc", None)
    frame = getattr(sloc, "maybe_user_loc", None) or getattr(sloc, "framework_loc", None)
    if not isinstance(frame, traceback.FrameSummary) or is_library_file(frame.filename):
        return ""
    return f"{os.path.basename(frame.filename)}:{frame.lineno}: {(frame.line or '').strip()}: "


def check_output(output: Any, several: bool) -> None:
    """Refuses what is no output. several: there may be several, and of edges."""
    if isinstance(output, Value) and kind_of(output.rows) == "stored" and not output.axis and several:
        return
    if isinstance(output, Value) and isinstance(output.rows, tuple):
        raise Refused(
            "model: forward returns some of the vertices: return the logits of all; train_mask says which "
            "count"
        )
    if (
        not isinstance(output, Value)
        or kind_of(output.rows) != "vertices"
        or output.axis
        or len(output.shape) > 1
    ):
        raise Refused(
            "model: forward returns something else than one tensor of vertices × classes: return the logits "
            "of all vertices, and nothing else"
        )
