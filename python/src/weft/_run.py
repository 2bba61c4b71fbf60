"""Runs: what a training leaves, and what can be asked of it."""

from __future__ import annotations

import csv
import html
import json
import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from . import _explain, _module, _program, _tables, _weights
from ._arrays import Array, array, placed
from ._errors import Refused, reading
from ._graph import Data, Graph, arguments, graph_of
from ._scratch import Scratch, graphs_named, is_temporary

if TYPE_CHECKING:
    import pandas
    import torch
    from torch_geometric.explain import Explanation, HeteroExplanation

Output = Literal["predictions", "logits", "probabilities"]


class Table(dict[str, Array]):
    """Columns of equal length, by their names."""

    def frame(self) -> pandas.DataFrame:
        """The columns as a table of pandas, which must be installed."""
        import pandas

        return pandas.DataFrame(dict(self))


class History(Table):
    """The epochs of a run: a column with a number for each epoch, by its name, as ``epoch``, ``loss``, ``val``.

    Metrics are NaN in epochs that were not evaluated.

    Example:
        >>> run.history["loss"][-1]                                # doctest: +SKIP
        0.3679
    """


def _matrix(file: Path) -> Array:
    return np.asarray(np.load(file))


#: What a table may say besides the numbers and ends of edges, in one column or several.
_ANSWERS = ("class", "probability", "margin", "entropy", "probabilities", "value", "embedding", "change")


def _of_ends(words: list[str]) -> list[str]:
    """Those of the words for columns of a table of edges that name the edge or an end."""
    return [
        word for word in words if word not in _ANSWERS and not word.startswith(("probability_", "label_", "value_"))
    ]


class _InOrder:
    """What a table of edges in the order of edge_index is made of: one in the order of the store.

    Args:
        order: where the edges of the store stand in edge_index.
        columns: those to return.
        settings: of :meth:`Run.predict`.
    """

    def __init__(self, order: Array, columns: list[str], settings: dict[str, Any]):
        self._order, self._sort, self._top = order, settings.get("sort"), None
        self._hidden = bool(_of_ends(columns)) and "edge" not in columns
        #: The columns and the settings to ask the program for. It orders edges by their numbers in the store.
        self.columns = [*columns, "edge"] if self._hidden else columns
        self.settings = settings
        if self._sort in ("edge", "-edge"):
            top = settings.get("top")
            if isinstance(top, (int, np.integer)) and top > 0:
                self._top, self.settings = int(top), settings | {"top": None}

    def table(self, made: Table) -> Table:
        """The columns that were asked for, of what the program wrote."""
        edges = self._order[made["edge"]]
        made["edge"] = edges
        if self._sort in (None, "edge", "-edge"):
            rows = np.argsort(-edges if self._sort == "-edge" else edges)[: self._top]
            made = Table({name: of[rows] for name, of in made.items()})
        if self._hidden:
            del made["edge"]
        return made


def _ends(header: list[str], words: list[str]) -> list[str]:
    """The columns of a table of edges that name ends, of which it was asked for these columns."""
    own = _of_ends(words)
    if not own:
        return header[1:3]
    ends, at = [], 0
    for word in words:
        if word in own and word not in ("edge", "row"):
            ends.append(header[at])
        at += 1 + (len(header) - len(words)) * (word in ("probabilities", "value"))
    return ends


def _table(file: Path, edges_of: list[str] | None = None, several: bool = False) -> Table:
    """Reads a table of the program: vertices and classes without names are integers, other numbers float32.

    A number that is not there is NaN. edges_of: the columns that were asked for of edges; None: of vertices.
    several: classes are lists of labels, which are text.
    """
    with open(file, encoding="utf-8", newline="") as text:
        header, *rows = csv.reader(text)
    table = Table()
    ends = [] if edges_of is None else _ends(header, edges_of)
    numbers = ("vertex", "edge", "row", *ends, *(() if several else ("class", "old_class")))
    for k, name in enumerate(header):
        column = np.array([row[k] for row in rows], str)
        if name in numbers and all(value.isdecimal() for value in column.tolist()):
            table[name] = column.astype(np.int64)
        elif name in ("type", "name", "class", "old_class", *ends):
            table[name] = column
        else:
            table[name] = np.where(column == "", "nan", column).astype(np.float32)
    return table


def _listed(vertices: Any, folder: Path) -> Path:
    """A file of ids or names of vertices, in a folder."""
    ids = array(vertices, "vertices")
    if ids.dtype.kind in "UO":
        file = folder / "vertices.csv"
        with open(file, "w", encoding="utf-8", newline="") as text:  # the header is the name of no vertex
            csv.writer(text, quoting=csv.QUOTE_ALL).writerows([[""], *([name] for name in ids.tolist())])
        return file
    file = folder / "vertices.npy"
    np.save(file, ids if ids.size else ids.astype(np.int64))
    return file


class Report:
    """A page in HTML, which a notebook shows."""

    def __init__(self, text: str):
        #: The page, which needs no network.
        self.html = text

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page into a file."""
        Path(path).write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{html.escape(self.html)}" style="width:100%;height:720px;border:0"></iframe>'


class Run:
    """A finished training, in a directory of its own.

    ``weft.train`` and ``weft.load`` make runs. A pickle of one is its directory, without its graph. Rows are
    the vertices in the order of the data; of a graph of several types, those of the type with labels. With
    ``task="edge"`` they are the edges in the order of the :class:`Graph`, and of a run that was loaded, or of a
    path, in that of the store: by target, and then by source.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        graph: Graph | None = None,
        module: torch.nn.Module | None = None,
        files: Scratch | None = None,
    ):
        #: The directory of the run, absolute. ``run-files.md`` lists its files.
        self.directory = Path(directory).absolute()
        self._graph = graph  # whose store lives as long as this
        self._files = files  # of tables, as those of the graph
        self._module = module  # that was trained
        file = self.directory / "run.json"
        if not file.is_file():
            begun = (self.directory / "state.json").exists()
            way = (
                f'continue it with weft.train(data, resume="{directory}")'
                if begun
                else "weft.runs lists the runs that have some"
            )
            raise Refused(f"{directory}: has no results of a run (run.json); {way}")
        with reading(file):
            self._record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
            of = self._record["summary"]
            of |= {
                "run_dir": str(self.directory),
                "ended": self._record.get("ended"),
            }  # None: of an early version
            of["dataset"] = graphs_named(of["dataset"])
            of |= {name: self._record[name] for name in ("threshold", "thresholds") if name in self._record}
            # What is asked of every run is there.
            Runs([self])._rows(), repr(self), self.classes, self.reason, of["task"], self._record["store"]

    def __reduce__(self) -> tuple[type[Run], tuple[str]]:
        return Run, (str(self.directory),)

    def __repr__(self) -> str:
        s = self.summary
        return (
            f"Run({s['model']} on {s['graph']['vertices']:,} vertices: {s['epochs_run']} epochs, best {s['best_epoch']}, "
            f"{s['metric']} train {_metric(s['train'])} val {_metric(s['val'])} test {_metric(s['test'])}; {self.directory})"
        )

    @property
    def summary(self) -> dict[str, Any]:
        """The results: the object of ``weft train --json``, as ``losses``, ``epochs_run``, ``val``, ``test``,
        ``run_dir``; and ``ended``: ``epochs``, ``patience``, ``max-time`` or ``interrupted``. Of two classes
        ``threshold`` is the best one on validation (``at``, ``f1``), of several labels ``thresholds`` those of
        each."""
        return self._record["summary"]  # type: ignore[no-any-return]

    @property
    def settings(self) -> dict[str, str]:
        """All settings of the run by their keywords, as texts; ``in memory``: it was given as arrays."""
        texts = self._record["settings"]
        return {
            name.replace("-", "_"): "in memory" if is_temporary(of := graphs_named(value)) else of
            for name, value in texts.items()
        }

    @property
    def reason(self) -> str:
        """Why the run ended, as ``all 200 epochs are done``."""
        return str(self._record["reason"])

    @property
    def classes(self) -> Array:
        """The classes by their numbers: texts, where labels were texts; else the numbers from 0."""
        names = self._record.get("class_names")
        return np.arange(self.summary["graph"]["classes"]) if names is None else np.array(names)

    @cached_property
    def history(self) -> History:
        """The columns of metrics.jsonl."""
        file = self.directory / "metrics.jsonl"
        with reading(file):
            lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
            names = list(dict.fromkeys(name for line in lines for name in line))
            columns = {name: [line.get(name) for line in lines] for name in names}
            return History(
                {
                    name: np.array([np.nan if x is None else x for x in column])
                    for name, column in columns.items()
                }
            )

    @cached_property
    def logits(self) -> Array:
        """V × C float32: the output of the model. Of values to predict: the values. Of link prediction:
        embeddings."""
        file = self.directory / "predictions.npy"
        with reading(file):
            made = np.asarray(np.load(file))
            if made.ndim != 2 or made.dtype != np.float32 or made.size == 0:
                raise ValueError(f"an array of {made.dtype} with the shape {made.shape}")
        return placed(made, self._edge_order(self._graph))

    def _edge_order(self, graph: Graph | None) -> Array | None:
        """Where the edges of the store that have rows stand in the graph; None: rows stay as they are."""
        if self.summary["task"] != "edge" or graph is None:
            return None
        labelled = graph.labelled
        if labelled is None:  # a prediction needs no labels
            labelled = graph.relations[0] if len(graph.relations) == 1 else self._learned_relation()
        return graph.edge_order(labelled) if labelled in graph.relations else None

    def _learned_relation(self) -> str:
        """Of several relations the one whose labels were learned, as SOURCE__NAME__TARGET."""
        if self._graph is not None and self._graph.labelled is not None:
            return self._graph.labelled
        file = Path(self._record["store"]) / "graph.json"
        with reading(file):
            relations = json.loads(file.read_text(encoding="utf-8"))["relations"]
            of = [relation for relation in relations if relation.get("edge_labels")][0]
            return "__".join((of["source"], of["name"], of["target"]))

    @property
    def probabilities(self) -> Array:
        """V × C: the softmax of the logits, or the sigmoid where a vertex may have several labels; of a run with
        ``calibrate`` those that were fitted.

        Raises:
            Refused: the run predicts values or links.
        """
        return self._as("probabilities", self.logits)

    @property
    def predictions(self) -> Array:
        """V numbers of classes; V × C of 0 and 1, where a vertex may have several; V values, or V × K.

        Raises:
            Refused: the run predicts links.
        """
        return self._as("predictions", self.logits)

    def _as(self, output: Output, logits: Array) -> Array:
        counts = self.summary["graph"]
        if output == "logits":
            return logits
        if self.summary["task"] == "link":
            raise Refused(
                f"{output}: a run of link prediction has embeddings, which are its logits; scores(edges) has the scores of edges"
            )
        if counts.get("values"):
            if output == "probabilities":
                raise Refused("probabilities: the run predicts values; predictions has them")
            return logits[:, 0] if logits.shape[1] == 1 else logits
        several, fitted = bool(counts.get("several_labels")), self._record.get("calibration")
        if fitted is None and output == "predictions":
            return (logits > 0).astype(np.int64) if several else np.asarray(logits.argmax(1))
        probabilities = _probabilities(logits, several, fitted)
        if output == "probabilities":
            return probabilities
        if several:
            return (probabilities > 0.5).astype(np.int64)
        # Of equal probabilities the model's own likeliest class counts.
        own, rows = logits.argmax(1), np.arange(len(logits))
        return np.asarray(np.where(probabilities[rows, own] < probabilities.max(1), probabilities.argmax(1), own))

    def scores(self, edges: Any, relation: int = 0) -> Array:
        """The scores of edges by a run of link prediction: the larger, the likelier.

        Args:
            edges: 2 × N, or a pair of vectors: rows of ``logits``, which are the vertices' embeddings.
            relation: the number of the relation, for ``decoder="distmult"``.

        Returns:
            N numbers, h_u·h_v, or Σ h_uc·w_rc·h_vc with distmult.
        """
        if self.summary["task"] != "link":
            raise Refused('scores: are of runs with task="link"')
        source, target = (self.logits[array(end, "edges")] for end in edges)
        if self.settings["decoder"] == "distmult":
            source = source * self.state_dict()["decoder.weight"][relation]
        return np.asarray((source * target).sum(1))

    @overload
    def predict(
        self, data: Data = None, output: Output = "predictions", vertices: Any = None, **settings: Any
    ) -> Array: ...

    @overload
    def predict(
        self, data: Data = None, *, vertices: Any = None, columns: Sequence[str], **settings: Any
    ) -> Table: ...

    def predict(
        self,
        data: Data = None,
        output: Output = "predictions",
        vertices: Any = None,
        columns: Sequence[str] | None = None,
        **settings: Any,
    ) -> Array | Table:
        """Predicts with the weights of the run, without training.

        Args:
            data: another graph with the same features; None: that of the run.
            output: what to return: ``predictions``, ``logits`` or ``probabilities``, as the properties of
                these names.
            vertices: ids or names of the vertices to predict, in the order of the rows to return; None: all.
            columns: returns a table of some of ``class``, ``probability``, ``margin``, ``entropy``,
                ``probabilities``, ``value`` and ``embedding``, in place of ``output``.
            settings: flags of ``weft predict``, as ``threads=4``; with ``columns`` also ``sort="margin"`` or
                ``sort="yes"`` (a class, the likeliest first) or ``sort="edge"`` (the column, in the order of
                the data), ``top=100``, ``unlabelled=True`` and
                ``add_edges="new.csv", changed=True``.

        Returns:
            An array with a row for each vertex; with ``columns`` the columns of the table that ``weft predict``
            writes, by name: ``vertex``, ``name`` where vertices have names, and those asked for.
            Rows are in the order of the data, or of ``add_edges``. A table of new edges in two classes begins
            with the largest probability of the second class, unless ``sort="row"`` or another order is given.

        Example:
            >>> run.predict(weft.Graph(edge_index=e, x=x))         # doctest: +SKIP
            array([3, 0, 2, …])
            >>> run.predict(columns=["class", "margin"], sort="margin", top=100).frame()  # doctest: +SKIP

        Raises:
            Refused: the graph has other features, or that of the run is not there any more; a column is not one
                of what the run predicts.
        """
        if output not in ("predictions", "logits", "probabilities"):
            raise Refused(f"output={output!r}: it is predictions, logits or probabilities")
        if columns is None and settings.get("threshold") is not None:
            raise Refused(f'threshold={settings["threshold"]!r}: is for tables; give columns=["class"], or compare run.probabilities with run.summary["threshold"]["at"]')
        if columns is None:
            return self._as(output, self._predicted(data, vertices, settings, "out"))
        if output != "predictions":
            raise Refused(f"output={output!r}: columns say what the table has; leave output out")
        if isinstance(columns, str):
            columns = columns.split(",")
        columns = [word.strip() for word in columns]
        return self._predicted(data, vertices, settings, "out", columns)

    def embeddings(self, data: Data = None, vertices: Any = None, of: str | None = None, **settings: Any) -> Array:
        """The last hidden layer: V × hidden float32. Of a module of one's own: the input of its last layer with
        parameters.

        Args:
            data, vertices, settings: as for :meth:`predict`.
            of: of a module of one's own the name of a layer, as ``"conv2"``, whose output is returned: of its last
                call, where forward calls it several times.

        Raises:
            Refused: the module has no such layer, or its last one has no input of vertices.
        """
        file = self.directory / "program.json"
        if file.exists():
            # A part of a module is perhaps no layer for each stage of the run's mesh: one worker computes it.
            settings = {"parallel": "graph=1"} | settings
        elif of is not None:
            raise Refused(f"of={of!r}: is for runs of a module of one's own; leave it out")
        if of is not None and self.summary["task"] == "edge":
            raise Refused(f"of={of!r}: the run predicts edges; a forward hook of the layer, run.module().get_submodule({of!r}), has its rows, as own-model.md says")
        if of is None:
            return self._predicted(data, vertices, settings, "embeddings")
        with reading(file):
            program = _module.until(json.loads(file.read_text(encoding="utf-8")), of)
        scratch = Scratch()
        try:
            cut = scratch.path / "program.json"
            cut.write_text(json.dumps(program), encoding="utf-8")
            return self._predicted(data, vertices, settings | {"program": cut}, "out")
        finally:
            scratch.close()

    @overload
    def _predicted(self, data: Data, vertices: Any, settings: dict[str, Any], wanted: str) -> Array: ...

    @overload
    def _predicted(
        self, data: Data, vertices: Any, settings: dict[str, Any], wanted: str, columns: list[str]
    ) -> Table: ...

    def _predicted(
        self, data: Data, vertices: Any, settings: dict[str, Any], wanted: str, columns: list[str] | None = None
    ) -> Array | Table:
        """The array that the program writes for the flag wanted, or the table with these columns."""
        _program.check_keywords("predict", settings, taken=("help", "out", "embeddings", "plain_names", "vertices"))
        data, settings, files = _tables.placed(data, settings)
        graph = self._graph if data is None else graph_of(data)
        given = self._given(data, graph)
        # new edges have the order of their list
        order = None if wanted != "out" or settings.get("add_edges") is not None else self._edge_order(graph)
        of_edges = self.summary["task"] == "edge"
        asked = None if order is None or columns is None else _InOrder(order, columns, settings)
        if asked is not None:
            columns, settings = asked.columns, asked.settings
        scratch = Scratch()
        try:
            file = scratch.path / (wanted + (".npy" if columns is None else ".csv"))
            arguments = ["predict", str(self.directory), *given, f"--{wanted}={file}"]
            if columns is not None:
                arguments += ["--plain-names", f"--columns={','.join(columns)}"]
            if vertices is not None:
                arguments.append(f"--vertices={_listed(vertices, scratch.path)}")
            for name, value in settings.items():
                arguments += [] if value is None else _program.flags(name, value)
            _program.run(arguments)
            if columns is None:
                return placed(_matrix(file), order)
            made = _table(file, columns if of_edges else None, bool(self.summary["graph"].get("several_labels")))
        finally:
            scratch.close()
        return made if asked is None else asked.table(made)

    def _given(self, data: Data, graph: Graph | None) -> list[str]:
        """What the program is given as the graph: that of the run, where data is None."""
        if graph is not None or data is not None:
            return arguments(data, graph)
        store = self._record["store"]
        if not os.path.exists(store):
            raise Refused(
                f"{self.directory}: the graph of the run is not there any more; give it, as data=…"
            )
        return [str(store)]

    def explain(
        self, vertex: int | str | None = None, data: Data = None, *, edge: int | None = None, **settings: Any
    ) -> Explanation | HeteroExplanation:
        """What the prediction of a vertex or an edge rests on, as ``torch_geometric.explain`` has it; torch and
        torch_geometric must be installed.

        ``node_mask`` (V × F) is gradient × feature, and ``edge_mask`` (E) the gradient of a factor 1 of the
        messages along each edge: of the score that ``weft explain`` takes apart, as ``serving.md`` says.
        ``edge_index`` has the order of the data's, or of the store where the data are a path. ``index`` is the
        number of the vertex or the edge. ``edge_mask`` of an edge leaves out what its own features contribute,
        ``own_mask``. ``of``, ``score``, ``logit`` and ``without`` are the class or value and its score, and
        the score without the strongest edges.

        Args:
            vertex: its name or number. Of a run with labels of edges its likeliest edge is explained, of two
                classes by the second one.
            data: another graph with the same features; None: that of the run.
            edge: its number in the order of the data's, or of the store where the data are a path or not known, of
                a run with labels of edges.
            settings: flags of ``weft explain``: ``class="yes"`` (as ``**{"class": "yes"}``), ``steps=50``,
                ``out="why.html"``.

        Example:
            >>> why = run.explain(7)                               # doctest: +SKIP
            >>> why.visualize_graph("why.svg")                     # doctest: +SKIP
            >>> why.edge_index[:, why.edge_mask.topk(3).indices]   # doctest: +SKIP

        Raises:
            Refused: no vertex or edge has this name or number; the run predicts links.
        """
        graph = self._graph if data is None else graph_of(data)
        return _explain.explanation(self.directory, self._given(data, graph), graph, (vertex, edge), settings)

    def evaluate(
        self, data: Data = None, split: int | None = None, device: str | None = None
    ) -> dict[str, Any]:
        """Measures predictions by every metric: the object of ``weft evaluate --json``.

        Args:
            data: another graph, in which the run predicts first; None: that of the run.
            split: which split of the graph, from 0; None: that of the run.
            device: where the run predicts in another graph, and ranks edges, as for ``weft.train``; None: the CPU.

        Returns:
            ``train``, ``val`` and ``test``, each with metrics by name, as ``accuracy`` and ``macro-f1``, and
            of classes ``classes`` (precision, recall, F1, support) and ``confusion``; of link prediction
            ``val`` and ``test``.
        """
        graph = self._graph if data is None else graph_of(data)
        given = self._given(data, graph)
        arguments = ["evaluate", str(self.directory), *(given if data is not None else []), "--json"]
        if split is not None:
            arguments.append(f"--split={split}")
        if device is not None:
            arguments.append(f"--device={device}")
        return json.loads(_program.run(arguments))  # type: ignore[no-any-return]

    def state_dict(self) -> dict[str, Array]:
        """The weights of the best epoch, under PyTorch Geometric's names and shapes."""
        return _weights.read(self.directory / "model.safetensors")

    def module(self, module: torch.nn.Module | None = None) -> torch.nn.Module:
        """The module that was trained, with the weights of the run: a copy, whose ``state_dict`` has the same names.

        A training goes on from it: ``weft.train(data, model=run.module())``.

        Args:
            module: a module that is made like the one that was trained, of whose class the directory of a run
                knows no more than the name; None: that of the call of ``weft.train`` that returned this run.

        Example:
            >>> weft.load("runs/first").module(MyNet(128, 40))         # doctest: +SKIP

        Raises:
            Refused: the run is of a model that weft knows by name; the module is made otherwise; or it is not at
                hand, as where the run was loaded.
        """
        name = self.summary["model"]
        if not self.settings.get("program"):
            raise Refused(f"module: the run is of weft's own model {name}; to_pyg() gives PyG's with its weights")
        module = module if module is not None else self._module
        if module is None:
            raise Refused(f"module: {self.directory} has the weights and no class: give a module to load them into, as run.module({name}(…))")
        return _module.with_weights(module, self.directory)

    def to_pyg(self) -> torch.nn.Module:
        """PyTorch Geometric's own model with the weights of the run; torch and torch_geometric must be
        installed.

        It is called with the run's graph as PyG has it, and computes the logits of the run.
        :func:`weft.pyg.to_pyg` says
        what some models need besides: weights, features or types of edges.

        Example:
            >>> run.to_pyg()(data.x, data.edge_index)              # doctest: +SKIP

        Raises:
            Refused: PyG has nothing that computes the same; the text names the setting.
        """
        from .pyg import to_pyg

        return to_pyg(self)

    def report(self) -> Report:
        """A page about the run: curves, classes, memory, time by layer. A notebook shows it."""
        return _report([self])


def _probabilities(logits: Array, several: bool, fitted: dict[str, Any] | None) -> Array:
    """The probabilities of logits, of labels or of classes, as the run's calibration makes them."""
    if fitted is not None:
        logits = logits.astype(np.float64) / fitted.get("temperature", 1)
    if several:
        made = np.asarray(1 / (1 + np.exp(-logits)))
    else:
        powers = np.exp(logits - logits.max(1, keepdims=True))
        made = np.asarray(powers / powers.sum(1, keepdims=True))
    if fitted is None or "isotonic" not in fitted:
        return made
    of = fitted["isotonic"]
    if made.shape[1] == 2 and len(of) == 1:
        one = np.interp(made[:, 1], of[0]["from"], of[0]["to"])
        return np.stack([1 - one, one], 1)
    made = np.stack([np.interp(made[:, k], at["from"], at["to"]) for k, at in enumerate(of)], 1)
    if several:
        return made
    sums = made.sum(1, keepdims=True)
    return np.asarray(np.where(sums > 0, made / np.where(sums > 0, sums, 1), 1 / made.shape[1]))


def _metric(value: float | None) -> str:
    """A metric, which JSON may have as a whole number."""
    return "–" if value is None else f"{value:.4f}"


def _shown(value: Any) -> str:
    """A value of a table."""
    return f"{value:.4f}" if isinstance(value, float) else "–" if value is None else str(value)


def _report(runs: Iterable[Run]) -> Report:
    scratch = Scratch()
    try:
        page = scratch.path / "report.html"
        _program.run(["report", *(str(run.directory) for run in runs), f"--out={page}"])
        return Report(graphs_named(page.read_text(encoding="utf-8")))
    finally:
        scratch.close()


class Runs(Sequence[Run]):
    """Several runs beside each other, as a table: what differs of graphs and settings, and the results.

    Example:
        >>> weft.compare(a, b)                                     # doctest: +SKIP
    """

    def __init__(self, runs: Iterable[Run], summary: dict[str, Any] | None = None):
        self._runs = list(runs)
        #: The object that the program printed: of ``weft train --seeds`` with ``test_mean`` and
        #: ``test_deviation``, of ``weft runs --json`` or ``weft sweep --json``; else empty.
        self.summary = summary or {}

    @overload
    def __getitem__(self, at: int) -> Run: ...
    @overload
    def __getitem__(self, at: slice) -> Runs: ...
    def __getitem__(self, at: int | slice) -> Run | Runs:
        return Runs(self._runs[at]) if isinstance(at, slice) else self._runs[at]

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def differ(self) -> list[str]:
        """The settings, by their keywords, that the runs do not share."""
        names = dict.fromkeys(name for run in self._runs for name in run.settings)
        return [name for name in names if len({run.settings.get(name) for run in self._runs}) > 1]

    @property
    def best(self) -> Run:
        """The best run by validation.

        Raises:
            Refused: there is no run, or none has a validation metric, or they have several, which do not compare.
        """
        if not self._runs:
            raise Refused("best: there is no run")
        metrics = {s["metric"] for s in self._summaries() if s["val"] is not None}
        if len(metrics) != 1:
            raise Refused(
                f"best: the runs have {' and '.join(sorted(metrics)) or 'no metric'} of validation vertices; give runs that have the same"
            )
        sign = -1 if metrics <= {"rmse", "mae"} else 1  # errors: the smaller, the better
        measured = [run for run in self._runs if run.summary["val"] is not None]
        return max(measured, key=lambda run: sign * run.summary["val"])

    def _summaries(self) -> list[dict[str, Any]]:
        return [run.summary for run in self._runs]

    def _table(self) -> dict[str, list[Any]]:
        facts = [{"dataset": s["dataset"], "metric": s["metric"], **s["graph"]} for s in self._summaries()]
        columns: dict[str, list[Any]] = {
            name: of
            for name in ("dataset", "vertices", "edges", "features", "classes", "metric")
            if len(set(of := [fact.get(name) for fact in facts])) > 1
        }
        columns |= {name: [run.settings.get(name) for run in self._runs] for name in self.differ}
        for name in ("train", "val", "test", "best_epoch", "epochs_run", "epoch_seconds_median"):
            values = [s[name] for s in self._summaries()]
            whole = name in ("best_epoch", "epochs_run")
            columns[name] = values if whole else [None if value is None else float(value) for value in values]
        columns["directory"] = [str(run.directory) for run in self._runs]
        return columns

    def frame(self) -> pandas.DataFrame:
        """The table of pandas, which must be installed: a row for each run."""
        import pandas

        return pandas.DataFrame(self._table())

    def _rows(self) -> list[list[str]]:
        table = self._table()
        return [list(table), *([_shown(x) for x in row] for row in zip(*table.values()))]

    def __repr__(self) -> str:
        rows = self._rows()
        widths = [max(map(len, column)) for column in zip(*rows)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows
        )

    def _repr_html_(self) -> str:
        rows = []
        for k, row in enumerate(self._rows()):
            cell = "td" if k else "th"
            rows.append("<tr>" + "".join(f"<{cell}>{html.escape(text)}</{cell}>" for text in row) + "</tr>")
        return f"<table>{''.join(rows)}</table>"

    def report(self) -> Report:
        """A page about the runs, with their curves in one chart. A notebook shows it."""
        return _report(self._runs)
