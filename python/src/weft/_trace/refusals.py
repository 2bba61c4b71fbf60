"""Why a module is not traced, in the words of who wrote it: the line of source, the reason, and what to write
in its place. `export`, `lower` and `_compare` ask for it."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from .._errors import Refused
from .._library import is_library_file
from .._lowering import KEEPS, line_of
from .._values import Unlowerable
from .called import Called

# Whether PyTorch is 2.15 or later, which tells the most sizes from values.
_NEWEST = tuple(int(n) for n in re.findall("[0-9]+", torch.__version__)[:2]) >= (2, 15)
OF_DATA = (
    "forward reads or sets .data of a tensor, which no trace shows: write .detach(), and set values before "
    "training"
)


def without_features(error: BaseException, called: Called) -> Refused | None:
    """The refusal of a forward that reads features of a vertex type without any; None: the error is another
    one."""
    name = error.args[0] if isinstance(error, KeyError) and error.args else None
    if not isinstance(name, str) or called.schema.features.get(name, 1):
        return None
    return Refused(
        f"model: forward reads the features of the vertex type {name!r}, and the graph has none: give them, "
        "or a parameter of the module with a row for each of its vertices; a compiled module also takes them "
        "in a call"
    )


def why(error: BaseException, names: Iterable[str]) -> Refused:
    """What torch.export, or the module in it, raised, in the words of who wrote the module."""
    if isinstance(error, Refused):
        return error
    text, kind = str(error), type(error).__name__
    frames = [
        f
        for e in (error, error.__cause__, error.__context__)
        if e
        for f in traceback.extract_tb(e.__traceback__)
    ]
    own = [f for f in frames if not is_library_file(f.filename)] or [
        f for f in frames if "/torch_geometric/nn/" in f.filename
    ]
    at = (
        f"{os.path.basename(own[-1].filename)}:{own[-1].lineno}: {(own[-1].line or '').strip()}: "
        if own
        else ""
    )
    if isinstance(error, Unlowerable):
        return Refused(f"model: {at}{error}")
    if any(".max()) + 1" in (f.line or "") for f in frames):
        return Refused(
            f"model: {at}the number of vertices is found from the largest in edge_index: give "
            "num_nodes=x.size(0), as in softmax(src, index, num_nodes=x.size(0)), and make other edges "
            "(to_undirected) before training"
        )
    if "must match the size" in text and re.search(r"\(s\d+\)", text):
        return Refused(
            f"model: {at}a table of a fixed number of rows meets all vertices: give the table's rows as "
            "features, x"
        )
    if ".numpy()" in text:
        return Refused(
            f"model: {at}forward leaves PyTorch by .numpy(): write what follows by torch's operations"
        )
    if "fake tensor" in text and "constant" in text:
        return Refused(f"model: {at}{OF_DATA}")
    if "in-place operation" in text or "functions with out=" in text:
        return Refused(f"model: {at}forward writes into a parameter or a buffer: {KEEPS}")
    matrix = next((name for name in names if name.startswith("adj")), None)
    if matrix:
        return Refused(
            f"model: {at}{kind}: {matrix} is edge_index, 2 × E: make a matrix of it in forward, by "
            "torch.sparse_coo_tensor(edge_index, edge_weight, (n, n)) with n = x.size(0), or call propagate"
        )
    if "data-dependent" in text or "DataDependent" in kind or "Pending unbacked" in kind:
        if any(f.filename.endswith("/torch_geometric/nn/dense/linear.py") for f in frames):
            return Refused(
                f"model: {at}a layer joins the rows of all types and sorts them by type, as HGTConv and "
                "HeteroLinear do: take HANConv, or HeteroConv with a layer for each relation, as "
                "TransformerConv is"
            )
        older = "" if _NEWEST else f", or PyTorch {torch.__version__} takes it to, as a later one may not"
        return Refused(
            f"model: {at}forward's course, or a size, depends on values{older}: write a comparison and "
            "torch.where, and take sizes from x.size(0)"
        )
    if "Constraints violated" in text or "specialized" in text:
        return Refused(
            "model: forward works for one number of vertices or edges alone: take sizes from x.size(0), not "
            "from numbers that the module holds"
        )
    return Refused(
        f"model: {at}{kind}: {' '.join(text.split())[:300]}; weft calls module({', '.join(names)})"
    )


def said_of(node: Any) -> str:
    line = line_of(node)
    return f"{line}: " if line else ""


def fixed_count(graph: Any, called: Called) -> Refused | None:
    """The refusal of a place where the number of vertices became a fixed number; None: there is no such
    place."""
    count = next((t.shape[0] for name, t in called.tensors.items() if name == "x"), 0)
    if count in {n for t in (*called.parameters(), *called.buffers()) for n in t.shape}:
        return None
    for node in graph.nodes:
        made = node.meta.get("val")
        sizes = made.shape[:1] if node.op == "call_function" and isinstance(made, Tensor) else ()
        if any(isinstance(n, int) and n == count for n in sizes):
            return Refused(
                f"model: {said_of(node)}the number of vertices is a fixed number here, as len(x) is: write "
                "x.size(0)"
            )
    return None
