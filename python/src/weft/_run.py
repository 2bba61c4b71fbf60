"""A run: what a training leaves, and what can be asked of it."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from . import _explain, _module, _program, _tables, _weights
from ._arrays import Array, array, placed
from ._comparison import rows_of
from ._errors import Refused, reading
from ._folders import graphs_named, is_temporary
from ._graph import Data, Graph, arguments, graph_of
from ._predicted import History, InOrder, Table, file_of, matrix_of, probabilities_of, table_of
from ._reached import until
from ._report import Report, report_of
from ._scratch import Scratch

if TYPE_CHECKING:
    import torch
    from torch_geometric.explain import Explanation, HeteroExplanation


Output = Literal["predictions", "logits", "probabilities"]


class Run:
    """A finished training, in a directory of its own.

    ``weft.train`` and ``weft.load`` make runs. A pickle of one is its directory, without its graph. Rows are
    the vertices in the order of the data; of a graph of several types, those of the type with labels. With
    ``task="edge"`` they are the edges in the order of the :class:`Graph`, and of a run that was loaded, or of
    a path, in that of the store: by target, and then by source.
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
            summary = self._record["summary"]
            summary |= {
                "run_dir": str(self.directory),
                "ended": self._record.get("ended"),
            }  # None: of an early version
            summary["dataset"] = graphs_named(summary["dataset"])
            summary |= {
                name: self._record[name] for name in ("threshold", "thresholds") if name in self._record
            }
            # What is asked of every run is there.
            rows_of([self]), repr(self), self.classes, self.reason, summary["task"], self._record["store"]

    def __reduce__(self) -> tuple[type[Run], tuple[str]]:
        return Run, (str(self.directory),)

    def __repr__(self) -> str:
        s = self.summary
        return (
            f"Run({s['model']} on {s['graph']['vertices']:,} vertices: {s['epochs_run']} epochs, best "
            f"{s['best_epoch']}, {s['metric']} train {_metric(s['train'])} val {_metric(s['val'])} test "
            f"{_metric(s['test'])}; {self.directory})"
        )

    @property
    def summary(self) -> dict[str, Any]:
        """The results: the object of ``weft train --json``, as ``losses``, ``epochs_run``, ``val``, ``test``,
        ``run_dir``; and ``ended``: ``epochs``, ``patience``, ``max-time`` or ``interrupted``. Of two classes
        ``threshold`` is the best one on validation (``at``, ``f1``), of several labels ``thresholds`` those
        of each."""
        return self._record["summary"]  # type: ignore[no-any-return]

    @property
    def settings(self) -> dict[str, str]:
        """All settings of the run by their keywords, as texts; ``in memory``: it was given as arrays."""
        texts = self._record["settings"]
        return {
            name.replace("-", "_"): "in memory" if is_temporary(named := graphs_named(value)) else named
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
            relation = [relation for relation in relations if relation.get("edge_labels")][0]
            return "__".join((relation["source"], relation["name"], relation["target"]))

    @property
    def probabilities(self) -> Array:
        """V × C: the softmax of the logits, or the sigmoid where a vertex may have several labels; of a run
        with ``calibrate`` those that were fitted.

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
                f"{output}: a run of link prediction has embeddings, which are its logits; scores(edges) has "
                "the scores of edges"
            )
        if counts.get("values"):
            if output == "probabilities":
                raise Refused("probabilities: the run predicts values; predictions has them")
            return logits[:, 0] if logits.shape[1] == 1 else logits
        several, fitted = bool(counts.get("several_labels")), self._record.get("calibration")
        if fitted is None and output == "predictions":
            return (logits > 0).astype(np.int64) if several else np.asarray(logits.argmax(1))
        probabilities = probabilities_of(logits, several, fitted)
        if output == "probabilities":
            return probabilities
        if several:
            return (probabilities > 0.5).astype(np.int64)
        # Of equal probabilities the model's own likeliest class counts.
        own, rows = logits.argmax(1), np.arange(len(logits))
        return np.asarray(
            np.where(probabilities[rows, own] < probabilities.max(1), probabilities.argmax(1), own)
        )

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
            An array with a row for each vertex; with ``columns`` the columns of the table that ``weft
            predict`` writes, by name: ``vertex``, ``name`` where vertices have names, and those asked for.
            Rows are in the order of the data, or of ``add_edges``. A table of new edges in two classes begins
            with the largest probability of the second class, unless ``sort="row"`` or another order is given.

        Example:
            >>> run.predict(weft.Graph(edge_index=e, x=x))         # doctest: +SKIP
            array([3, 0, 2, …])
            >>> run.predict(columns=["class", "margin"], sort="margin", top=100).frame()  # doctest: +SKIP

        Raises:
            Refused: the graph has other features, or that of the run is not there any more; a column is not
                one of what the run predicts.
        """
        if output not in ("predictions", "logits", "probabilities"):
            raise Refused(f"output={output!r}: it is predictions, logits or probabilities")
        if columns is None and settings.get("threshold") is not None:
            raise Refused(
                f'threshold={settings["threshold"]!r}: is for tables; give columns=["class"], or compare '
                'run.probabilities with run.summary["threshold"]["at"]'
            )
        if columns is None:
            return self._as(output, self._predicted(data, vertices, settings, "out"))
        if output != "predictions":
            raise Refused(f"output={output!r}: columns say what the table has; leave output out")
        if isinstance(columns, str):
            columns = columns.split(",")
        columns = [word.strip() for word in columns]
        return self._predicted(data, vertices, settings, "out", columns)

    def embeddings(
        self, data: Data = None, vertices: Any = None, of: str | None = None, **settings: Any
    ) -> Array:
        """The last hidden layer: V × hidden float32. Of a module of one's own: the input of its last layer
        with parameters.

        Args:
            data, vertices, settings: as for :meth:`predict`.
            of: of a module of one's own the name of a layer, as ``"conv2"``, whose output is returned: of its
                last call, where forward calls it several times.

        Raises:
            Refused: the module has no such layer, or its last one has no input of vertices.
        """
        layer = of
        file = self.directory / "program.json"
        if file.exists():
            # A part of a module is perhaps no layer for each stage of the run's mesh: one worker computes it.
            settings = {"parallel": "graph=1"} | settings
        elif layer is not None:
            raise Refused(f"of={layer!r}: is for runs of a module of one's own; leave it out")
        if layer is not None and self.summary["task"] == "edge":
            raise Refused(
                f"of={layer!r}: the run predicts edges; a forward hook of the layer, "
                f"run.module().get_submodule({layer!r}), has its rows, as own-model.md says"
            )
        if layer is None:
            return self._predicted(data, vertices, settings, "embeddings")
        with reading(file):
            program = until(json.loads(file.read_text(encoding="utf-8")), layer)
        scratch = Scratch()
        try:
            cut = scratch.path / "program.json"
            with scratch.writing("the part of the module"):
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
        self,
        data: Data,
        vertices: Any,
        settings: dict[str, Any],
        wanted: str,
        columns: list[str] | None = None,
    ) -> Array | Table:
        """The array that the program writes for the flag wanted, or the table with these columns."""
        _program.check_keywords(
            "predict", settings, taken=("help", "out", "embeddings", "plain_names", "vertices")
        )
        data, settings, files = _tables.placed(data, settings)
        graph = self._graph if data is None else graph_of(data)
        source = self._given(data, graph)
        # new edges have the order of their list
        order = None if wanted != "out" or settings.get("add_edges") is not None else self._edge_order(graph)
        of_edges = self.summary["task"] == "edge"
        asked = None if order is None or columns is None else InOrder(order, columns, settings)
        if asked is not None:
            columns, settings = asked.columns, asked.settings
        scratch = Scratch()
        try:
            file = scratch.path / (wanted + (".npy" if columns is None else ".csv"))
            arguments = ["predict", str(self.directory), *source, f"--{wanted}={file}"]
            if columns is not None:
                arguments += ["--plain-names", _program.flag("columns", _program.listed(list(columns)))]
            if vertices is not None:
                with scratch.writing("vertices"):
                    arguments.append(f"--vertices={file_of(vertices, scratch.path)}")
            for name, value in settings.items():
                arguments += [] if value is None else _program.flags(name, value)
            _program.run(arguments)
            if columns is None:
                return placed(matrix_of(file), order)
            made = table_of(
                file, columns if of_edges else None, bool(self.summary["graph"].get("several_labels"))
            )
        finally:
            scratch.close()
        return made if asked is None else asked.table(made)

    def _given(self, data: Data, graph: Graph | None) -> list[str]:
        """What the program is given as the graph: that of the run, where data is None."""
        if graph is not None or data is not None:
            return arguments(data, graph)
        store = self._record["store"]
        if not os.path.exists(store):
            raise Refused(f"{self.directory}: the graph of the run is not there any more; give it, as data=…")
        return [str(store)]

    def explain(
        self, vertex: int | str | None = None, data: Data = None, *, edge: int | None = None, **settings: Any
    ) -> Explanation | HeteroExplanation:
        """What the prediction of a vertex or an edge rests on, as ``torch_geometric.explain`` has it; torch
        and torch_geometric must be installed.

        ``node_mask`` (V × F) is gradient × feature, and ``edge_mask`` (E) the gradient of a factor 1 of the
        messages along each edge: of the score that ``weft explain`` takes apart, as ``serving.md`` says.
        ``edge_index`` has the order of the data's, or of the store where the data are a path. ``index`` is
        the number of the vertex or the edge. ``edge_mask`` of an edge leaves out what its own features
        contribute, ``own_mask``. ``of``, ``score``, ``logit`` and ``without`` are the class or value and its
        score, and the score without the strongest edges.

        Args:
            vertex: its name or number. Of a run with labels of edges its likeliest edge is explained, of two
                classes by the second one.
            data: another graph with the same features; None: that of the run.
            edge: its number in the order of the data's, or of the store where the data are a path or not
                known, of a run with labels of edges.
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
            device: where the run predicts in another graph, and ranks edges, as for ``weft.train``; None: the
                CPU.

        Returns:
            ``train``, ``val`` and ``test``, each with metrics by name, as ``accuracy`` and ``macro-f1``, and
            of classes ``classes`` (precision, recall, F1, support) and ``confusion``; of link prediction
            ``val`` and ``test``.
        """
        graph = self._graph if data is None else graph_of(data)
        source = self._given(data, graph)
        arguments = ["evaluate", str(self.directory), *(source if data is not None else []), "--json"]
        if split is not None:
            arguments.append(f"--split={split}")
        if device is not None:
            arguments.append(f"--device={device}")
        return json.loads(_program.run(arguments))  # type: ignore[no-any-return]

    def state_dict(self) -> dict[str, Array]:
        """The weights of the best epoch, under PyTorch Geometric's names and shapes."""
        return _weights.read(self.directory / "model.safetensors")

    def module(self, module: torch.nn.Module | None = None) -> torch.nn.Module:
        """The module that was trained, with the weights of the run: a copy, whose ``state_dict`` has the same
        names.

        A training goes on from it: ``weft.train(data, model=run.module())``.

        Args:
            module: a module that is made like the one that was trained, of whose class the directory of a run
                knows no more than the name; None: that of the call of ``weft.train`` that returned this run.

        Example:
            >>> weft.load("runs/first").module(MyNet(128, 40))         # doctest: +SKIP

        Raises:
            Refused: the run is of a model that weft knows by name; the module is made otherwise; or it is not
                at hand, as where the run was loaded.
        """
        name = self.summary["model"]
        if not self.settings.get("program"):
            raise Refused(
                f"module: the run is of weft's own model {name}; to_pyg() gives PyG's with its weights"
            )
        module = module if module is not None else self._module
        if module is None:
            raise Refused(
                f"module: {self.directory} has the weights and no class: give a module to load them into, as "
                f"run.module({name}(…))"
            )
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
        return report_of([self.directory])


def _metric(value: float | None) -> str:
    """A metric, which JSON may have as a whole number."""
    return "–" if value is None else f"{value:.4f}"
