"""`edge_split` of `Graph`: which edges train, validate and test, as masks of edges, or as the rule of a
split."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ._arrays import Array, Ends, array, chosen
from ._errors import Refused

MASKS = ("train_mask", "val_mask", "test_mask")
EDGE_MASKS = tuple("edge_" + name for name in MASKS)

#: The parts of a split of edges by what ``edge_split`` calls them.
_PARTS = {"train": 0, "val": 1, "valid": 1, "validation": 1, "test": 2, None: -1}


def _is_in_parts(split: Any) -> bool:
    """Whether edge_split has the edges of each part, and not the part of each edge."""
    if isinstance(split, Mapping):
        return all(not isinstance(key, tuple) for key in split)
    return isinstance(split, (tuple, list)) and len(split) == 3 and all(np.ndim(part) > 0 for part in split)


def take_rule(arrays: dict[str, Any], changes: dict[str, Any]) -> None:
    """Moves a rule that is given as edge_split to the split of the graph."""
    rule = arrays.get("edge_split")
    if isinstance(rule, Mapping) and len(rule) == 1 and not _is_in_parts(rule):
        rule = next(iter(rule.values()))
    if not isinstance(rule, str):
        return
    if changes.get("split") is not None:
        raise Refused(f"edge_split: {rule!r} and split are both rules; give one of them")
    if masks := [name for name in (*MASKS, *EDGE_MASKS) if name in arrays]:
        raise Refused(
            f"edge_split: {rule!r} divides the vertices with labels, too, and {masks[0]} divides some; give "
            "one of them"
        )
    changes["split"] = rule
    del arrays["edge_split"]


def split_by_relation(arrays: dict[str, Any]) -> dict[str, Any]:
    """The edge_split of a graph of several types, which may be that of the only relation with labels."""
    split, labels = arrays.get("edge_split"), arrays.get("edge_y")
    if split is None or isinstance(split, Mapping) and not _is_in_parts(split):
        return {}
    if not isinstance(labels, Mapping) or len(labels) != 1:
        raise TypeError("edge_split: must be a dict by relation, as the edges are")
    return {"edge_split": dict.fromkeys(labels, split)}


def _of_parts(split: Any, name: str, edges: int) -> Array:
    """The part of each edge, −1 for none, where edge_split has the edges of each part."""
    if isinstance(split, Mapping):
        if unknown := [key for key in split if key is None or key not in _PARTS]:
            raise Refused(f"{name}: {unknown[0]!r} is no part of a split: give train, val and test")
        named: list[tuple[int, Any]] = [
            (_PARTS[key], part) for key, part in split.items() if part is not None
        ]
    else:
        named = list(enumerate(split))
    made = np.full(edges, -1)
    for number, part in named:
        ids = chosen(part, name, edges, "edges")
        if (made[ids] >= 0).any() or len(np.unique(ids)) < len(ids):
            raise Refused(f"{name}: an edge is in two parts, or twice in one: give it once")
        made[ids] = number
    return made


def edge_masks(arrays: dict[str, Any], folder: str, edges: int) -> dict[str, Array | Ends]:
    """The masks of the edges that train, validate and test by edge_split."""
    name = folder + "edge_split"
    if masks := [key for key in EDGE_MASKS if key in arrays]:
        raise Refused(f"{name}: {masks[0]} divides the edges, too; give one of the two")
    if _is_in_parts(arrays["edge_split"]):
        parts = _of_parts(arrays["edge_split"], name, edges)
        return {folder + key: parts == part for part, key in enumerate(EDGE_MASKS)}
    made = array(arrays["edge_split"], name, gap=-1)
    if made.ndim == 1 and made.dtype.kind in "UO":
        words = made.tolist()
        if unknown := [word for word in words if word not in _PARTS]:
            raise Refused(
                f"{name}: {unknown[0]!r} is no part of a split: give train, val or test, and None for none "
                "of these"
            )
        made = np.array([_PARTS[word] for word in words], np.int64)
    if made.ndim != 1 or made.dtype.kind not in "iu" or not np.isin(made, (-1, 0, 1, 2)).all():
        raise Refused(
            f"{name}: give one of train, val and test for each edge, or one of 0, 1, 2 and −1 for none, "
            "three arrays of edges, or a rule as random:60/20/20"
        )
    if len(made) != edges:
        raise Refused(
            f"{name}: says of {len(made):,} edges what they are for, and there are {edges:,}: give one of "
            "train, val and test for each edge"
        )
    return {folder + key: made == part for part, key in enumerate(EDGE_MASKS)}
