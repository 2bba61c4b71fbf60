"""Graphs in memory, and their way into the program."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shutil
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Union

import numpy as np

from . import _convert, _of_pyg, _program
from ._arrays import Array, Ends, Rows, is_sparse, rows_of, save, sparse
from ._edge_split import EDGE_MASKS, MASKS, split_by_relation, take_rule
from ._errors import Refused
from ._graph_files import (
    EDGE,
    VERTEX,
    complete_masks,
    edge_arrays,
    folder_of,
    labels_of,
    numbers_of,
    say_count,
)
from ._scratch import Scratch
from ._tables import Lists

log = logging.getLogger("weft")

#: What functions take as a graph: a :class:`Graph`, the path of a file, folder or store or the name of a
#: published graph, ``Data`` or ``HeteroData`` of PyTorch Geometric or a list of ``Data``, or a ``DGLGraph``.
Data = Union["Graph", str, "os.PathLike[str]", Any]

_STORE = 1 << 20  # about how many bytes a store has beside its arrays

#: What others call the keywords of a graph.
_ALSO = {
    "X": "x",
    "features": "x",
    "labels": "y",
    "edges": "edge_index",
    "edge_weights": "edge_weight",
    "A": "adj",
    "train_idx": "train_mask",
    "val_idx": "val_mask",
    "valid_idx": "val_mask",
    "test_idx": "test_mask",
}


class Graph:
    """A graph of arrays in memory: NumPy's, tensors of PyTorch, columns of pandas, or lists.

    The arrays are written once, when the graph is first needed, into shared memory where there is room (see
    ``python.md``), and checked as ``weft import npz`` checks them. What is written lives as long as this
    object and the runs that were trained on it. Do not change the arrays before that.

    Args:
        edge_index: 2 × E integers, sources above targets: v aggregates u for each column (u, v). Or a pair of
            vectors.
        x: features, V × F numbers, or a sparse matrix of SciPy or PyTorch.
        y: labels: V class ids from 0, −1 for none, or objects (as of pandas' ``Int64``) with None or NA for
            none; or V texts, None or NA for none; or V × C of 0 and 1, for several labels of a vertex; or V
            floats, or V × K of them, to predict, NaN for none.
        train_mask, val_mask, test_mask: V booleans, or V × S for S splits. Of some, the others are False.
        adj: in place of ``edge_index``: a sparse matrix V × V, with a value at row u and column v for each
            edge from u to v. Values other than one are the edges' weights.
            Entries of a COO matrix that stand twice are two edges.
        edge_weight: E numbers.
        edge_attr: features of edges, E or E × D numbers.
        edge_y: labels of edges, in each form that ``y`` has: E or E × C, for ``task="edge"``. Floats that are
            all 0 and 1 are classes. Of a graph of several types one relation has them.
        edge_split: which edges train, validate and test: E texts ``train``, ``val`` or ``test``, None for
            neither, or E numbers 0, 1, 2, or −1 for neither; or three arrays, as a tuple or by ``train``,
            ``val`` and ``test``, of the numbers of edges, or of E booleans; or a rule, as
            ``"random:60/20/20"``, which is ``split``.
        edge_time: E dates (NumPy's ``datetime64``, pandas', or texts as ``2024-01-31T12:00``, in UTC) or
            numbers, by which ``split="time:edge_time=2024-01-01,2024-02-01"`` divides the edges with labels.
        edge_train_mask, edge_val_mask, edge_test_mask: in place of it E booleans, or E × S for S splits.
        num_nodes: V, where no other array tells it.
        batch: V numbers, the same for all vertices of one of several graphs.
        train_edges, val_edges, test_edges: N × 2 each, for link prediction: the edges that train, validate
            and test. The edges of ``edge_index`` pass messages, whatever these are: leave those to validate
            and test out of it. ``val_negatives`` and ``test_negatives`` (M × 2), or ``val_negative_targets``
            and ``test_negative_targets`` (N × M), are edges that are not there.
        changes: flags of ``weft import``, as ``split="random:60/20/20"`` in place of masks, ``splits=5``,
            ``seed=1``, ``symmetrize=True``, ``self_loops=True``, ``reverse_relations=True``,
            ``random_features=64``, ``dense_features=True``. ``split`` divides the edges, too, if these have
            labels.

    A graph of several types has dicts: those of vertices by the name of their type, and those of edges by
    (source type, name, target type). One type may have ``y``; it is that of the predictions.

    Example:
        >>> import numpy as np
        >>> ring = np.arange(6)
        >>> g = Graph(edge_index=[ring, (ring + 1) % 6], x=np.eye(6), y=ring % 2, split="random:40/30/30")
        >>> g
        Graph(6 vertices, 6 edges, 6 features)

    Raises:
        Refused: arrays do not fit together; later, what the import refuses.
        Failed: later, there is no room for the arrays.
        TypeError: a keyword is unknown.
    """

    def __init__(
        self,
        edge_index: Any = None,
        x: Any = None,
        y: Any = None,
        *,
        train_mask: Any = None,
        val_mask: Any = None,
        test_mask: Any = None,
        adj: Any = None,
        edge_weight: Any = None,
        edge_attr: Any = None,
        edge_y: Any = None,
        edge_time: Any = None,
        edge_split: Any = None,
        edge_train_mask: Any = None,
        edge_val_mask: Any = None,
        edge_test_mask: Any = None,
        num_nodes: Any = None,
        batch: Any = None,
        train_edges: Any = None,
        val_edges: Any = None,
        test_edges: Any = None,
        val_negatives: Any = None,
        test_negatives: Any = None,
        val_negative_targets: Any = None,
        test_negative_targets: Any = None,
        **changes: Any,
    ):
        arrays = {
            key: value
            for key, value in locals().items()
            if key in (*VERTEX, *EDGE, "adj") and value is not None
        }
        take_rule(arrays, changes)
        for name in changes:
            if name in _ALSO:
                raise TypeError(f"unknown keyword {name}: did you mean {_ALSO[name]}?")
        _program.check_keywords("import npz", changes, taken=("help", "largest_component"))
        self._changes = {
            name: value for name, value in changes.items() if value is not None and value is not False
        }
        for noun, names in (("vertices", MASKS), ("edges", ("edge_split", *EDGE_MASKS))):
            masks = [name for name in names if name in arrays]
            if masks and self._changes.get("split", "given") != "given":
                raise Refused(
                    f"split: {' and '.join(masks)} divide{'s' * (masks == ['edge_split'])} the {noun}; give "
                    "masks, or split, and not both"
                )
        #: The classes that ``y`` has, where it is text, in their order: class k of the predictions of a run
        #: on this graph is ``classes[k]``. Else None. A run tells the classes of another graph by their
        #: texts.
        self.classes: Array | None = None
        #: Whether ``y`` has values to predict, and not classes; None: there are no labels, or their values
        #: tell.
        self.values: bool | None = None
        #: The classes that ``edge_y`` has, as ``classes``.
        self.edge_classes: Array | None = None
        #: Whether it was one of the three graphs of a split of edges, and has nothing of the split.
        self.undivided = False
        #: Whether its labels of edges are of some that are there several times.
        self.labels_parallel = False
        self._lock = threading.Lock()
        self._split_of_edges = "edge_split" in arrays
        self._scratch: Scratch | None = None
        if "edge_index" not in arrays and "adj" not in arrays:
            raise Refused("a graph has edges: give edge_index, 2 × E, or adj, a sparse matrix")
        if "edge_index" in arrays and "adj" in arrays:
            raise Refused("edge_index and adj: are both edges; give one of them")
        edges = arrays.get("edge_index", arrays.get("adj"))
        typed = isinstance(edges, Mapping) and not is_sparse(edges)  # SciPy's dok_matrix is both
        self._files = self._typed(arrays) if typed else self._plain(arrays)
        self._ends = {
            name.rpartition("/")[0].rpartition("/")[2]: value
            for name, value in self._files.items()
            if name.rpartition("/")[2] == "edge_index"
        }
        #: Of which relation edges have labels; empty: of the only one; None: of none.
        self.labelled: str | None = None
        for name in self._files:
            folder, _, key = name.rpartition("/")
            if key == "edge_y":
                self.labelled = folder.rpartition("/")[2]
                classes = name.replace("edge_y", "edge_class_names")
                self.edge_classes = self._files.get(classes)  # type: ignore[assignment]
        #: The relations, as SOURCE__NAME__TARGET; of a graph of one type an empty name.
        self.relations = list(self._ends)
        keys = {name.rpartition("/")[2] for name in self._files}
        #: Whether its edges have labels, its vertices have none, and no edges are given for link prediction.
        self.learns_edges = self.labelled is not None and not keys & {"y", "train_edges"}
        #: Whether it has edges to predict, for link prediction.
        self.of_links = "train_edges" in keys
        self._shown = self._counts()

    @classmethod
    def of(cls, data: Data, **changes: Any) -> Graph:
        """A graph of another library's: ``Data``, a list or a data set of them, or ``HeteroData`` of PyTorch
        Geometric, ``DGLGraph``.

        Args:
            data: the graph. A :class:`Graph` is itself, where there are no changes.
            changes: as for :class:`Graph`, also arrays, which stand in for those of the data; of a graph of
                several types with labels also ``target="paper"``, the type whose labels to learn, or a
                relation, as ``target=("user", "rates", "item")``.

        Labels of edges are ``edge_label`` or ``edge_y`` of PyTorch Geometric, with ``train_mask`` and the
        other masks of a relation, or of a ``Data`` without ``y``, and ``edata["label"]`` with its masks of
        DGL. They are those of the edges of ``edge_index``, or of the edges of it that ``edge_label_index``
        names.

        The three graphs of ``RandomLinkSplit``, as a list, are the first with their split of edges: its edges
        pass messages, the positive edges of each part train, validate and test, and the negative ones of the
        last two are those to measure against. Negative edges to train on are drawn in each epoch.

        Example:
            >>> g = Graph.of(data, split="random:60/20/20")            # doctest: +SKIP
        """
        if isinstance(data, Graph):
            if changes:
                raise TypeError(
                    f"{next(iter(changes))}: is for the arrays of a graph; give it when the Graph is made"
                )
            return data
        fields = _convert.fields(data, changes.pop("target", None), changes)
        if changes.get("split") not in (None, "given"):
            fields = {name: value for name, value in fields.items() if name not in (*MASKS, *EDGE_MASKS)}
        made = cls(**(fields | changes))
        made.undivided = "train_edges" not in changes and _of_pyg.is_part_of_split(data)
        made.labels_parallel = (
            made.undivided and made.labelled is None and _of_pyg.labels_parallel_edges(data)
        )
        return made

    def __copy__(self) -> Graph:
        return self

    def __deepcopy__(self, _: Any) -> Graph:
        return self  # it does not change

    def __reduce__(self) -> Any:
        raise TypeError(
            "a Graph belongs to its process, and is not pickled: pickle its arrays, or a path to its data"
        )

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError(
            "a Graph is no array of rows, which GridSearchCV and cross_val_score divide into folds; "
            'weft.sweep selects by validation vertices: found = weft.sweep(graph, grid={"hidden": [16, '
            "64]}); run = found.best; run.evaluate()"
        )

    def _mask(self, part: str) -> Array:
        first = json.loads((self.store / "graph.json").read_text(encoding="utf-8"))["vertices"][0]
        folder = self.store / "vertices" / first["type"]  # of several types
        path = (folder if folder.exists() else self.store) / f"{part}.npy"
        ids = np.atleast_2d(np.load(path)) if path.exists() else np.empty((1, 0), np.int64)
        mask = np.zeros((len(ids), first["count"]), bool)
        for split, vertices in zip(mask, ids):
            split[vertices[vertices >= 0]] = True
        return mask[0] if len(mask) == 1 else mask.T

    @property
    def train_mask(self) -> Array:
        """V booleans, or V × S for S splits: the vertices that train, as masks or ``split`` gave them. Of a
        graph of several types, those of the type with labels."""
        return self._mask("train")

    @property
    def val_mask(self) -> Array:
        """V booleans, or V × S: the vertices that validate, as :attr:`train_mask`."""
        return self._mask("val")

    @property
    def test_mask(self) -> Array:
        """V booleans, or V × S: the vertices that test, as :attr:`train_mask`."""
        return self._mask("test")

    def edge_order(self, relation: str = "") -> Array | None:
        """Where the edges of the store, by target and then by source, stand in ``edge_index``; None: in the
        same order.

        Args:
            relation: of a graph of several types, SOURCE__NAME__TARGET.

        Raises:
            Refused: they are others, as after ``symmetrize=True``.
        """
        typed = (self.store / "edges").exists()  # as where reverse_relations adds one to a graph of one type
        name = folder_of(relation) if relation else "vertex__edge__vertex"
        folder = self.store / "edges" / name if typed else self.store
        indptr, indices = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("indptr", "indices"))
        ends = self._ends["" if "" in self._ends else name]
        if isinstance(ends, np.ndarray):
            ends = Ends(ends[0], ends[1])
        source, target = (
            np.asarray(end.all() if isinstance(end, Rows) else end, np.int64)
            for end in (ends.source, ends.target)
        )
        order = np.argsort(target * (int(source.max(initial=0)) + 1) + source, kind="stable")
        degrees = np.bincount(target, minlength=len(indptr) - 1)
        if not np.array_equal(np.diff(indptr), degrees) or not np.array_equal(indices, source[order]):
            raise Refused(
                "graph: its edges are not those of edge_index, which the import or something since has "
                "changed: give a Graph of the edges to choose from"
            )
        return None if (order == np.arange(len(order))).all() else order

    def __repr__(self) -> str:
        return f"Graph({self._shown})"

    @property
    def store(self) -> Path:
        """The folder of the program's own form of the graph. The first use writes and checks it.

        Raises:
            Refused: an array is not what it should be.
        """
        with self._lock:
            if self._scratch is None:
                self._scratch = self._import()
                self._files = {}
            return self._scratch.path / "graph"

    def _import(self) -> Scratch:
        scratch = Scratch(_STORE + sum(value.nbytes for value in self._files.values()))
        source, store = scratch.path / "arrays", scratch.path / "graph"
        try:
            with scratch.writing("the graph"):
                for name, value in self._files.items():
                    path = source / f"{name}.npy"
                    path.parent.mkdir(parents=True, exist_ok=True)
                    save(path, value)
            flags = [_program.flag(name, value) for name, value in self._changes.items()]
            with self._naming_split():
                told = _program.run(["import", "npz", str(source), str(store), *flags])
            for line in told.splitlines()[:-2]:  # which name the store, and the next command
                log.info("%s", line)
            shutil.rmtree(source)
        except BaseException:
            scratch.close()
            raise
        return scratch

    @contextlib.contextmanager
    def _naming_split(self) -> Iterator[None]:
        """Names edge_split in what the import refuses of the masks that were made of it."""
        try:
            yield
        except Refused as error:
            if not self._split_of_edges:
                raise
            raise Refused(
                re.sub(r'array "([^"]*)edge_(train|val|test)_mask"', r"\1edge_split", str(error))
            ) from None

    def _plain(self, arrays: dict[str, Any]) -> dict[str, Array | Ends]:
        edges, shape = edge_arrays(arrays, "")
        files = self._vertex_arrays(arrays, "") | edges
        if shape is not None:
            if shape[0] != shape[1]:
                raise Refused(f"adj: is a matrix of {shape[0]} × {shape[1]}: it must be square")
            say_count(files, "", shape[0])
        return files

    def _typed(self, arrays: dict[str, Any]) -> dict[str, Array | Ends]:
        arrays = arrays | split_by_relation(arrays)
        for key, value in arrays.items():
            if not isinstance(value, Mapping):
                raise TypeError(f"{key}: must be a dict by type, as the edges are")
        relations = list(
            dict.fromkeys(name for key, by_type in arrays.items() if key not in VERTEX for name in by_type)
        )
        for name in relations:
            if not isinstance(name, tuple) or len(name) != 3:
                raise TypeError(f"{name!r}: a relation is called (source type, name, target type)")
        of_vertices = [name for key in VERTEX for name in arrays.get(key, ())]
        types = list(
            dict.fromkeys([*of_vertices, *(end for name in relations for end in (name[0], name[2]))])
        )

        def arrays_of(name: Any) -> dict[str, Any]:
            return {key: by_type[name] for key, by_type in arrays.items() if by_type.get(name) is not None}

        files: dict[str, Array | Ends] = {"vertex_types": np.array(types), "edge_types": np.array(relations)}
        for name in types:
            files |= self._vertex_arrays(arrays_of(name), f"vertices/{folder_of(name)}/")
        for name in relations:
            edges, shape = edge_arrays(arrays_of(name), f"edges/{folder_of('__'.join(name))}/")
            files |= edges
            for end, size in zip((name[0], name[2]), shape or ()):
                say_count(files, f"vertices/{folder_of(end)}/", size)
        return files

    def _vertex_arrays(self, arrays: dict[str, Any], folder: str) -> dict[str, Array | Ends]:
        files: dict[str, Array | Ends] = {}
        for key in VERTEX:
            if key not in arrays:
                continue
            name, value = folder + key, arrays[key]
            if key == "x" and is_sparse(value):
                matrix = rows_of(sparse(value, name))
                values = np.ones(len(matrix.columns), np.float32) if matrix.values is None else matrix.values
                files |= {f"{name}_data": values, f"{name}_indices": matrix.columns}
                files |= {f"{name}_indptr": matrix.bounds, f"{name}_shape": np.array(matrix.shape)}
                continue
            if key == "y":
                files[name], self.classes = made, _ = labels_of(value, name)
                if self.classes is not None and len(self.classes) > 0:
                    files[folder + "class_names"] = self.classes
                if made.size == len(made):
                    self.values = made.dtype.kind == "f"
            else:
                files[name] = numbers_of(value, name)
        complete_masks(files, folder)
        return files

    def _counts(self) -> str:
        edges = features = vertices = 0
        for name, value in self._files.items():
            key = name.rpartition("/")[2]
            if key == "edge_index":
                edges += len(value.source) if isinstance(value, Ends) else int(value.shape[-1])
        types = self._files.get("vertex_types")
        if isinstance(types, np.ndarray):
            relations = len(self._files["edge_types"])  # type: ignore[arg-type]
            return f"{len(types)} vertex types, {relations} relations, {edges:,} edges"
        for key in ("num_nodes", "x", "y", "x_shape"):
            values = self._files.get(key)
            if isinstance(values, np.ndarray):
                vertices = vertices or int(
                    values.ravel()[0] if key in ("num_nodes", "x_shape") else len(values)
                )
                if key in ("x", "x_shape"):
                    features = (
                        int(values[1]) if key == "x_shape" else int(np.prod(values.shape[1:], dtype=int))
                    )
        known = [
            f"{n:,} {what}"
            for n, what in ((vertices, "vertices"), (edges, "edges"), (features, "features"))
            if n
        ]
        return ", ".join(known)


def graph_of(data: Data) -> Graph | None:
    """The graph in memory of what a function was given; None: it is a path or a name."""
    return None if isinstance(data, (str, os.PathLike, Lists)) else Graph.of(data)


def argument(data: Any, graph: Graph | None) -> str:
    """How the program is given a graph."""
    return str(graph.store) if graph is not None else _program.operand(data)


def arguments(data: Any, graph: Graph | None) -> list[str]:
    """How the program is given a graph that may be several lists of edges."""
    return [_program.operand(one) for one in data] if isinstance(data, Lists) else [argument(data, graph)]
