"""The arrays of a graph, by the files of the form npz: what each keyword of `Graph` is written as."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from . import _fields, _program
from ._arrays import Array, Ends, array, edges_of, is_sparse, is_torch, range_of_whole, sparse
from ._edge_split import EDGE_MASKS, edge_masks
from ._errors import Refused

VERTEX = ("num_nodes", "x", "y", "train_mask", "val_mask", "test_mask", "batch")
EDGE = (
    *(
        "edge_index",
        "edge_weight",
        "edge_attr",
        "edge_y",
        "edge_time",
        "edge_split",
        *EDGE_MASKS,
        "train_edges",
        "val_edges",
        "test_edges",
    ),
    *("val_negatives", "test_negatives", "val_negative_targets", "test_negative_targets"),
)


def edge_arrays(
    arrays: dict[str, Any], folder: str
) -> tuple[dict[str, Array | Ends], tuple[int, int] | None]:
    """The arrays of edges by their files, and the shape of the matrix that they were."""
    files: dict[str, Array | Ends] = {}
    shape = None
    if "adj" in arrays:
        name = folder + "adj"
        if not is_sparse(arrays["adj"]):
            raise Refused(
                f"{name}: is no sparse matrix: give one of SciPy or PyTorch, or the edges as edge_index"
            )
        matrix = sparse(arrays["adj"], name)
        files[folder + "edge_index"], shape = edges_of(matrix), matrix.shape
        if matrix.values is not None:
            if "edge_weight" in arrays:
                raise Refused(f"{name}: has values other than one beside edge_weight; give the weights once")
            files[folder + "edge_weight"] = matrix.values
    for key in EDGE:
        name = folder + key
        if key not in arrays:
            continue
        if key == "edge_index":
            files[name] = _edge_index(arrays[key], name)
        elif key == "edge_y":
            labels, classes = labels_of(arrays[key], name)
            files[name] = _of_each_edge(labels, name)
            if classes is not None and len(classes) > 0:
                files[folder + "edge_class_names"] = classes
        elif key == "edge_time":
            files[name] = _times(arrays[key], name)
        elif key == "edge_split":
            ends = files[folder + "edge_index"]
            files |= edge_masks(
                arrays, folder, len(ends.source) if isinstance(ends, Ends) else ends.shape[-1]
            )
        else:
            files[name] = numbers_of(arrays[key], name)
    complete_masks(files, folder + "edge_")
    return files, shape


def labels_of(value: Any, name: str) -> tuple[Array, Array | None]:
    """Labels as the program reads them, and their classes where they are texts."""
    made = array(value, name, gap=-1)
    return _numbered(made, name) if made.dtype.kind in "UO" else (made, None)


def _of_each_edge(y: Array, name: str) -> Array:
    """Labels of edges. Floats are values, as ratings, unless all are 0 and 1."""
    if y.dtype.kind == "f" and (np.isnan(y) | np.isin(y, (0, 1))).all():
        return _fields.whole(y)
    if found := range_of_whole(y):
        warnings.warn(
            f"{name}: its floats are whole numbers, {found}, and taken for values to predict; .astype(int), "
            "or .long() of a tensor, makes classes of them",
            stacklevel=_program.depth(),
        )
    return y


def _times(value: Any, name: str) -> Array:
    """Dates as texts, or numbers."""
    made: Array = value.to_numpy() if hasattr(value, "to_numpy") else value
    if not is_torch(made):
        made = np.asarray(made)
        if made.dtype.kind == "M":
            return np.datetime_as_string(made)
        if made.dtype.kind == "O" and made.size > 0 and hasattr(made.flat[0], "isoformat"):
            return np.array([date.isoformat() if hasattr(date, "isoformat") else str(date) for date in made])
    return array(made, name)


def numbers_of(value: Any, name: str) -> Array:
    made = array(value, name)
    if made.dtype.kind in "UO":
        raise Refused(f"{name}: has the type {made.dtype}: give numbers")
    return made


def complete_masks(files: dict[str, Array | Ends], folder: str) -> None:
    """Adds masks without vertices for the parts of a split that are not given."""
    names = [f"{folder}{part}_mask" for part in ("train", "val", "test")]
    there = [mask for name in names if isinstance(mask := files.get(name), np.ndarray)]
    for name in names:
        if there and name not in files:
            files[name] = np.zeros(there[0].shape, bool)


def say_count(files: dict[str, Array | Ends], folder: str, vertices: int) -> None:
    """Adds the number of vertices, unless another array tells it."""
    if not any(folder + key in files for key in ("num_nodes", "x", "y", "x_shape")):
        files[folder + "num_nodes"] = np.array(vertices)


def folder_of(name: str) -> str:
    """The folder of a type or relation, whose name may be no name of a folder, as that of an IRI."""
    name = name.replace("/", "%2F")
    return "%2E" + name[1:] if name.startswith(".") else name


def _edge_index(value: Any, name: str) -> Array | Ends:
    if isinstance(value, Ends):  # of a matrix
        return value
    if isinstance(value, (tuple, list)) and len(value) == 2 and all(np.ndim(end) == 1 for end in value):
        source, target = (_ids(end, name) for end in value)
        if source.size == 0 == target.size:
            source, target = source.astype(np.int64), target.astype(np.int64)
        if (
            source.shape != target.shape
            or source.ndim != 1
            or {source.dtype.kind, target.dtype.kind} - set("iu")
        ):
            raise Refused(
                f"{name}: {source.shape} sources of {source.dtype} and {target.shape} targets of "
                f"{target.dtype}: give as many integers of each"
            )
        return Ends(source, target)
    if is_sparse(value):
        raise Refused(f"{name}: is a sparse matrix: give it as adj")
    made = _ids(value, name)
    if made.ndim != 2:
        raise Refused(f"{name}: has shape {made.shape}: it must be 2 × E, sources above targets")
    if made.shape[0] != 2 and made.shape[1] == 2:
        raise Refused(
            f"{name}: has shape {made.shape}: it must be 2 × E, sources above targets; give edge_index.T"
        )
    return made if made.size else made.astype(np.int64)


def _ids(value: Any, name: str) -> Array:
    made = array(value, name)
    if made.dtype.kind in "UO":
        raise Refused(
            f"{name}: holds texts: give numbers of vertices from 0, as by pandas.factorize of both ends "
            "together, or pandas.Index(names).get_indexer(ends)"
        )
    return made


def _numbered(names: Array, key: str) -> tuple[Array, Array]:
    """Numbers of texts, −1 where there is none, and the texts in their order."""
    if names.ndim != 1:
        raise Refused(f"{key}: has shape {names.shape}: names of classes are one for each label")
    there = np.array([name is not None for name in names.tolist()], bool)
    texts = names[there].astype(str)
    classes, ids = np.unique(texts, return_inverse=True)
    numbers = np.full(len(names), -1, np.int64)
    numbers[there] = ids
    return numbers, classes
