"""Estimators in scikit-learn's manner, without scikit-learn."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Literal, TypeVar

import numpy as np

from . import _program
from ._arguments import TAKEN
from ._arrays import Array
from ._errors import Refused
from ._graph import Data, Graph, graph_of
from ._module import is_module, name_of
from ._run import Run
from ._train import Callback, train

_Own = TypeVar("_Own", bound="_Estimator")


# What scikit-learn calls the parameters.
_ALSO = {
    **{
        "random_state": "seed",
        "max_iter": "epochs",
        "n_epochs": "epochs",
        "n_jobs": "threads",
        "verbose": "progress",
    },
    **{"learning_rate": "lr", "learning_rate_init": "lr", "hidden_layer_sizes": "hidden"},
}


def _check_labels(graph: Graph | None, name: str) -> None:
    """Refuses a graph of which edges alone have labels."""
    if graph is not None and graph.learns_edges:
        raise Refused(f"edge_y: labels edges, and {name} learns those of vertices, y; take weft.train")


class _Estimator:
    _own = ("model", "out", "progress", "callbacks")
    _estimator_type: str

    def __init__(
        self,
        model: Any = "sage",
        *,
        out: str | os.PathLike[str] | None = None,
        progress: bool = False,
        callbacks: Callback | Iterable[Callback] = (),
        **settings: Any,
    ):
        self.set_params(model=model, out=out, progress=progress, callbacks=callbacks, **settings)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters that were given, by their names; each is also an attribute."""
        return {name: value for name, value in vars(self).items() if not name.endswith("_")}

    def set_params(self: _Own, **params: Any) -> _Own:
        """Changes parameters. It takes effect in the next ``fit``.

        Raises:
            TypeError: a parameter is unknown; the nearest is named.
            Refused: it asks for several runs, and an estimator has one.
        """
        for name in params:
            if name in _ALSO:
                raise TypeError(f"unknown keyword {name}: did you mean {_ALSO[name]}?")
            if name in ("seeds", "splits") and params[name] is not None:
                raise Refused(
                    f"{name}: asks for several runs, and an estimator has one; take weft.train(graph, "
                    f"{name}=…)"
                )
        _program.check_keywords("train", [name for name in params if name not in self._own], TAKEN)
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        changed = {
            name: value
            for name, value in self.get_params().items()
            if name not in ("out", "progress", "callbacks")
        }
        if is_module(changed.get("model")):
            changed["model"] = name_of(changed["model"])
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn 1.6 and later asks of an estimator; without it nothing calls this."""
        from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags

        kind = self._estimator_type
        return Tags(
            estimator_type=kind,
            target_tags=TargetTags(required=False),
            classifier_tags=ClassifierTags() if kind == "classifier" else None,
            regressor_tags=RegressorTags() if kind == "regressor" else None,
        )

    def fit(self: _Own, data: Data, y: None = None) -> _Own:
        """Trains on the training vertices of a graph, as :func:`weft.train` does; ``run_`` is the run.

        The directory of the run is a new one under ``runs/``, or ``out``, and stays. Another ``fit`` needs
        another ``out``.

        Args:
            data: the graph with features, labels and masks, or a ``split``.
            y: nothing: the graph has the labels.

        Raises:
            Refused: the labels are not of the estimator's kind.
        """
        _without(y)
        graph = graph_of(data)
        self._check_before(graph)
        params = self.get_params()
        run = train(graph or data, **params)
        if not isinstance(run, Run):
            raise Refused("seeds: ask for several runs, and an estimator has one; take weft.train")
        #: The :class:`weft.Run` of the training.
        self.run_: Run = run
        self._check()
        #: How many features a vertex has.
        self.n_features_in_: int = self.run_.summary["graph"]["features"]
        return self

    def _check_before(self, graph: Graph | None) -> None:
        """Refuses labels of another kind before the training, where a graph in memory tells it."""
        raise NotImplementedError

    def _check(self) -> None:
        raise NotImplementedError

    def _run(self) -> Run:
        if not hasattr(self, "run_"):
            raise Refused(f"this {type(self).__name__} is not fitted yet: call fit(data)")
        return self.run_

    def _measured(self, data: Data, part: str) -> dict[str, Any]:
        if part not in _PARTS:
            raise Refused(f"part={part!r}: it is train, val or test")
        if self._run().summary["task"] == "link":
            raise Refused("score: is of labels of vertices, and the run predicts links; take run_.evaluate()")
        measured: dict[str, Any] = self._run().evaluate(data)[part]
        if all(not isinstance(value, (int, float)) for value in measured.values()):
            raise Refused(
                f"score: the graph has no labelled {_PARTS[part]} vertices; give {part}_mask, or another "
                'part, as part="val"'
            )
        return measured


_PARTS = {"train": "training", "val": "validation", "test": "test"}


def _without(y: Any) -> None:
    if y is not None:
        raise Refused(
            "y: a graph has its labels: give a weft.Graph alone; in place of GridSearchCV and "
            "cross_val_score take weft.sweep"
        )


class NodeClassifier(_Estimator):
    """A classifier of vertices.

    Parameters are those of :func:`weft.train`: ``model``, ``hidden``, ``lr`` and all others, by keyword but
    for ``model``. It works with ``sklearn.base.clone`` and is saved by ``pickle`` and ``joblib``, as the
    directory of its run. For a search over parameters take :func:`weft.sweep`: a graph is not divided into
    folds, so ``GridSearchCV`` and ``cross_val_score`` do not take it.

    Example:
        >>> model = weft.NodeClassifier(model="gcn", hidden=16).fit(graph)    # doctest: +SKIP
        >>> model.predict(another)                                          # doctest: +SKIP
    """

    _estimator_type = "classifier"

    def _check_before(self, graph: Graph | None) -> None:
        if (task := getattr(self, "task", None)) in ("link", "edge"):
            raise Refused(
                f'task="{task}": learns edges, and NodeClassifier classes of vertices; take weft.train'
            )
        _check_labels(graph, "NodeClassifier")
        if graph is not None and graph.values:
            raise Refused(
                "y: holds floats, which are values to predict; give class ids, −1 for none, as by "
                ".fillna(-1).astype(int), or take NodeRegressor"
            )

    def _check(self) -> None:
        if self.run_.summary["graph"].get("values"):
            raise Refused("y: holds values to predict; take NodeRegressor")
        #: The classes in the order of the columns of ``predict_proba``: texts where labels were texts, else
        #: the numbers from 0 to the largest class id, also those that no vertex has.
        self.classes_: Array = self.run_.classes

    def predict(self, data: Data = None) -> Array:
        """The classes of all vertices, of ``classes_``; V × C of 0 and 1 where a vertex may have several.

        Args:
            data: another graph with the same features; None: that of ``fit``.
        """
        predicted = self._run().predict(data) if data is not None else self._run().predictions
        return predicted if predicted.ndim > 1 else np.asarray(self.classes_[predicted])

    def predict_proba(self, data: Data = None) -> Array:
        """V × C: the probability of each class of each vertex."""
        return self._run().predict(data, "probabilities") if data is not None else self._run().probabilities

    def score(
        self, data: Data = None, y: None = None, *, part: Literal["train", "val", "test"] = "test"
    ) -> float:
        """The accuracy on the test vertices, or another part; micro-F1 where a vertex may have several
        classes.

        Args:
            data: another graph with the same features, and labels and a ``test_mask`` (or ``split="test"``,
                by which all labelled vertices test); None: that of ``fit``. Labels that are texts are told by
                them.
            y: nothing: the graph has the labels.
            part: whose vertices are measured.

        Raises:
            Refused: no vertex of that part has a label, or a label is a text that was not learned.
        """
        _without(y)
        measured = self._measured(data, part)
        return float(measured["accuracy"] if measured.get("accuracy") is not None else measured["micro-f1"])


class NodeRegressor(_Estimator):
    """A predictor of values of vertices. Parameters are those of :func:`weft.train`.

    Example:
        >>> weft.NodeRegressor(hidden=32, epochs=100).fit(graph).score()      # doctest: +SKIP
        0.71
    """

    _estimator_type = "regressor"

    def _check_before(self, graph: Graph | None) -> None:
        if (task := getattr(self, "task", None)) in ("link", "edge"):
            raise Refused(
                f'task="{task}": learns edges, and NodeRegressor values of vertices; take weft.train'
            )
        _check_labels(graph, "NodeRegressor")
        if graph is not None and graph.values is False:
            raise Refused("y: holds classes; give floats, or take NodeClassifier")

    def _check(self) -> None:
        if not self.run_.summary["graph"].get("values"):
            raise Refused("y: holds classes; give floats, or take NodeClassifier")

    def predict(self, data: Data = None) -> Array:
        """V values, or V × K, in their own units."""
        return self._run().predict(data) if data is not None else self._run().predictions

    def score(
        self, data: Data = None, y: None = None, *, part: Literal["train", "val", "test"] = "test"
    ) -> float:
        """The coefficient of determination R² on the test vertices, or another part. Arguments are those of
        :meth:`NodeClassifier.score`."""
        _without(y)
        return float(self._measured(data, part)["r2"])
