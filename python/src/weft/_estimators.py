"""Estimators in scikit-learn's manner, without scikit-learn."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Literal, TypeVar

import numpy as np

from ._arrays import Array
from ._errors import Refused
from ._graph import Data
from ._run import Run
from ._train import Callback, train

_Own = TypeVar("_Own", bound="_Estimator")


class _Estimator:
    _own = ("model", "out", "progress", "callbacks")

    def __init__(
        self,
        model: str = "sage",
        out: str | os.PathLike[str] | None = None,
        progress: bool = False,
        callbacks: Callback | Iterable[Callback] = (),
        **settings: Any,
    ):
        self.model = model
        self.out = out
        self.progress = progress
        self.callbacks = callbacks
        self._settings = settings

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by their names."""
        return {name: getattr(self, name) for name in self._own} | self._settings

    def set_params(self: _Own, **params: Any) -> _Own:
        """Changes parameters. It takes effect in the next ``fit``."""
        for name, value in params.items():
            if name in self._own:
                setattr(self, name, value)
            else:
                self._settings[name] = value
        return self

    def __repr__(self) -> str:
        changed = {
            name: value for name, value in self.get_params().items() if name not in ("out", "progress", "callbacks")
        }
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in changed.items())})"

    def fit(self: _Own, data: Data, y: None = None) -> _Own:
        """Trains on the training vertices of a graph, as :func:`weft.train` does; ``run_`` is the run.

        Args:
            data: the graph with features, labels and masks, or a ``split``.
            y: nothing: the graph has the labels.
        """
        if y is not None:
            raise Refused("y: a graph has its labels; leave y out")
        #: The :class:`weft.Run` of the training.
        self.run_: Run = train(data, self.out, self.progress, self.callbacks, model=self.model, **self._settings)
        self._check()
        #: How many features a vertex has.
        self.n_features_in_: int = self.run_.summary["graph"]["features"]
        return self

    def _check(self) -> None:
        raise NotImplementedError

    def _run(self) -> Run:
        if not hasattr(self, "run_"):
            raise Refused(f"this {type(self).__name__} is not fitted yet: call fit(data)")
        return self.run_

    def _measured(self, data: Data, part: str) -> dict[str, Any]:
        if part not in ("train", "val", "test"):
            raise Refused(f"part={part!r}: it is train, val or test")
        return self._run().evaluate(data)[part]  # type: ignore[no-any-return]


class NodeClassifier(_Estimator):
    """A classifier of vertices.

    Parameters are those of :func:`weft.train`: ``model``, ``hidden``, ``lr`` and all others. It works with
    ``sklearn.base.clone``. For a search over parameters take :func:`weft.sweep`: a graph is not divided into
    folds.

    Example:
        >>> model = weft.NodeClassifier(model="gcn", hidden=16).fit(graph)    # doctest: +SKIP
        >>> model.predict(another)                                          # doctest: +SKIP
    """

    _estimator_type = "classifier"

    def _check(self) -> None:
        if self.run_.summary["graph"].get("values") or self.run_.summary["task"] == "link":
            raise Refused("y: holds values to predict, or links; take NodeRegressor, or weft.train")
        #: The classes in the order of the columns of ``predict_proba``.
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

    def score(self, data: Data = None, y: None = None, *, part: Literal["train", "val", "test"] = "test") -> float:
        """The accuracy on the test vertices, or another part; micro-F1 where a vertex may have several
        classes."""
        measured = self._measured(data, part)
        return float(measured["accuracy"] if measured.get("accuracy") is not None else measured["micro-f1"])


class NodeRegressor(_Estimator):
    """A predictor of values of vertices. Parameters are those of :func:`weft.train`.

    Example:
        >>> weft.NodeRegressor(hidden=32, epochs=100).fit(graph).score()      # doctest: +SKIP
        0.71
    """

    _estimator_type = "regressor"

    def _check(self) -> None:
        if not self.run_.summary["graph"].get("values"):
            raise Refused("y: holds classes; give floats, or take NodeClassifier")

    def predict(self, data: Data = None) -> Array:
        """V values, or V × K, in their own units."""
        return self._run().predict(data) if data is not None else self._run().predictions

    def score(self, data: Data = None, y: None = None, *, part: Literal["train", "val", "test"] = "test") -> float:
        """The coefficient of determination R² on the test vertices, or another part."""
        return float(self._measured(data, part)["r2"])
