"""The arguments of Graph that fields of other libraries' graphs become, and what is said of fields that are
left out."""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ._arrays import Array
from ._errors import Refused

log = logging.getLogger("weft")
MASKS = ("train_mask", "val_mask", "test_mask")
VERTEX = ("num_nodes", "x", "y", *MASKS, "batch")
LINKS = (
    *("train_edges", "val_edges", "test_edges", "val_negatives", "test_negatives"),
    *("val_negative_targets", "test_negative_targets"),
)
EDGE_MASKS = tuple("edge_" + name for name in MASKS)
EDGE_LABELS = ("edge_y", "edge_label")
Target = str | tuple[str, str, str] | None


def check_target(target: Target, types: Collection[Any], relations: Collection[Any]) -> None:
    if target is not None and target not in types and target not in relations:
        raise Refused(
            f"target={target!r}: its types are {', '.join(types)}, and its relations "
            f"{', '.join(map(str, relations))}"
        )


def first_labelled(made: dict[str, Any], types: list[str]) -> dict[str, Any]:
    """The arguments, with a number of vertices first that names the types in their order, and refused
    labels."""
    labelled = list(made.get("y", {}))
    if len(labelled) > 1:
        raise Refused(
            f"the types {', '.join(labelled)} have labels (y): choose one by weft.Graph.of(data, target=…)"
        )
    relations = list(made.get("edge_y", {}))
    if len(relations) > 1:
        raise Refused(
            f"the relations {' and '.join(map(str, relations))} have labels of edges: choose one by "
            "weft.Graph.of(data, target=…)"
        )
    for key in MASKS:  # splits are of the type with labels
        if key in made:
            made[key] = {name: mask for name, mask in made[key].items() if name in (labelled or types[:1])}
    return {"num_nodes": dict.fromkeys(types) | made.pop("num_nodes", {})} | made


def whole(y: Array) -> Array:
    """Class ids that are floats, as integers with −1 for NaN; any other labels as they are."""
    if y.dtype.kind != "f" or y.ndim == 2 and y.shape[1] != 1 or y.ndim not in (1, 2):
        return y
    there = ~np.isnan(y)
    if not ((y == np.trunc(y)) & (y >= -1) & (y < len(y)) | ~there).all():
        return y
    log.info("y: floats, all of them whole numbers: read as class ids")
    return np.where(there, y, -1).astype(np.int64)


def say_left(store: Mapping[str, Any], name: str) -> None:
    if store:
        log.info("left out: %s%s", ", ".join(map(str, store)), f" of {name}" if name else "")


def warn_of_weights(store: Mapping[str, Any], has: Collection[str], edges: int, place: str) -> None:
    """Warns of what is left out and may be weights or features of edges, if there are none."""
    for key, value in store.items():
        shape = tuple(value.shape) if is_float(value) else ()
        if shape[:1] != (edges,):
            continue
        wanted = "edge_weight" if len(shape) == 1 or shape[1:] == (1,) else "edge_attr"
        if wanted not in has:
            warn(
                f"{place}[{key!r}]: left out; if it counts, give it as {wanted}: weft.Graph.of(data, "
                f"{wanted}=…)"
            )


def is_float(value: Any) -> bool:
    return "float" in str(getattr(value, "dtype", ""))


def warn(text: str) -> None:
    """Warns at the line of the user that called the package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and Path(frame.f_code.co_filename).parent == Path(__file__).parent:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, stacklevel=level)


def put(made: dict[str, Any], key: str, name: Any, value: Any) -> None:
    if value is not None:
        made.setdefault(key, {})[name] = value


def take(data: dict[str, Any], *names: str) -> Any:
    for name in names:
        if name in data:
            return data.pop(name)
    return None
