"""Losses of one's own: what a training is given in the place of a function of (logits, labels)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree

from . import _program, _watch, _weights
from ._errors import Refused
from ._graph import Graph
from ._scratch import Scratch
from ._trace import Given, Schema, lower, used
from ._values import Flat, Unlowerable, Value

# How many vertices see a loss while it is traced, and before it trains.
_TRACED, _TRIED = 10007, 23


def flags(
    loss: Any, counts: Mapping[str, Any], shape: tuple[int, ...] | None, scratch: Scratch
) -> dict[str, Any]:
    """The settings of a loss: that of weft where it has the same, or else a file that the function is traced
    to.

    Args:
        loss: a function of (logits, labels), or a module of PyTorch.
        counts: of the graph, as ``weft inspect --json`` has them.
        shape: of a row of the logits; None: that which the labels need.
        scratch: where the file goes.
    """
    if isinstance(loss, type):
        raise TypeError(f"loss: {loss.__name__} is a class: give a loss, as {loss.__name__}()")
    columns = int(counts.get("value_columns") or counts.get("classes") or 0)
    if not columns:
        raise Refused("loss: a function is traced for a graph's labels, and this one has none; give labels")
    kind = "values" if counts.get("value_columns") else "several" if counts.get("multi_label") else "classes"
    if (known := _known(loss, kind)) is not None:
        return known
    if isinstance(loss, nn.Module) and any(p.requires_grad for p in loss.parameters()):
        raise Refused(
            f"loss: {type(loss).__name__} has parameters of its own, which nothing would train: make them "
            "parameters of the model"
        )
    z = (columns,) if shape is None else shape
    of_labels = {"classes": (), "several": (columns,), "values": z}[kind]
    logits = torch.linspace(0.05, 0.95, _TRIED * math.prod(z)).view(_TRIED, *z)
    _check_calls(loss, logits, _zeros(kind, of_labels)[:_TRIED], columns)
    text = _traced(loss, torch.zeros(_TRACED, *z), _zeros(kind, of_labels), columns)
    file = scratch.path / "loss.json"
    with scratch.writing("the loss"):
        file.write_text(text, encoding="utf-8")
    _try(loss, kind, z, columns, file)
    return {"loss": file}


def _zeros(kind: str, shape: tuple[int, ...]) -> Tensor:
    return torch.zeros(_TRACED, *shape, dtype=torch.long if kind == "classes" else torch.float)


def _known(loss: Any, kind: str) -> dict[str, Any] | None:
    """The settings of a loss that weft has itself."""
    f = nn.functional
    if kind == "classes" and loss is f.cross_entropy:
        return {"loss": "cross-entropy"}
    if kind == "several" and loss is f.binary_cross_entropy_with_logits:
        return {"loss": "cross-entropy"}
    if kind == "values" and (
        name := {f.mse_loss: "mse", f.l1_loss: "mae", f.smooth_l1_loss: "huber", f.huber_loss: "huber"}.get(
            loss
        )
    ):
        return {"loss": name}
    if getattr(loss, "reduction", None) != "mean":
        return None
    loss_class = type(loss)
    if kind == "classes" and loss_class is nn.CrossEntropyLoss and loss.ignore_index < 0:
        weights = {} if loss.weight is None else {"class_weights": loss.weight.tolist()}
        smoothing = {"label_smoothing": loss.label_smoothing} if loss.label_smoothing else {}
        return {"loss": "cross-entropy"} | weights | smoothing
    if (
        kind == "several"
        and loss_class is nn.BCEWithLogitsLoss
        and loss.weight is None
        and loss.pos_weight is None
    ):
        return {"loss": "cross-entropy"}
    if kind == "values" and loss_class in (nn.MSELoss, nn.L1Loss):
        return {"loss": "mse" if loss_class is nn.MSELoss else "mae"}
    if kind == "values" and (
        loss_class is nn.SmoothL1Loss and loss.beta == 1 or loss_class is nn.HuberLoss and loss.delta == 1
    ):
        return {"loss": "huber"}
    return None


class _Function(nn.Module):  # type: ignore[misc]
    """A function of tensors, as what is traced."""

    dgl = False

    def __init__(self, function: Callable[..., Any], inputs: dict[str, Tensor], columns: int) -> None:
        super().__init__()
        self.module, self.function, self.tensors, self.columns = nn.Module(), function, inputs, columns
        self.specs, self.schema = {name: Given(name) for name in inputs}, Schema({}, {}, {})
        self.names = dict(zip(inputs, inputs))

    def forward(self, tensors: Mapping[str, Tensor]) -> Any:
        with _Watched(self.columns):
            return self.function(*tensors.values())


class _Watched(TorchFunctionMode):  # type: ignore[misc]
    """Gives one_hot the number of classes, and refuses parameters that a function has from elsewhere."""

    def __init__(self, columns: int) -> None:
        super().__init__()
        self.columns = columns

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        leaves = _pytree.tree_leaves((args, kwargs))
        if any(isinstance(t, nn.Parameter) and t.requires_grad for t in leaves):
            raise Unlowerable("reads a parameter of a module: it is of logits and labels")
        if function is Tensor.__len__ and not isinstance(args[0].shape[0], int):
            raise Unlowerable("len() is one number for all graphs: write labels.size(0)")
        if function is nn.functional.one_hot and len(args) + len(kwargs) == 1:
            kwargs = {**kwargs, "num_classes": self.columns}
        return function(*args, **kwargs)


def _traced(loss: Any, logits: Tensor, labels: Tensor, columns: int) -> str:
    """The loss as JSON: operations on logits and labels, of which the last is one number."""
    name = getattr(loss, "__name__", type(loss).__name__)
    try:
        to, output = lower(_Function(loss, {"logits": logits, "labels": labels}, columns), True)
    except Refused as error:
        raise _said(error) from None
    if (
        not isinstance(output, Value)
        or isinstance(output.rows, tuple)
        or output.rows is None
        and np.prod(output.shape) > 1
    ):
        raise Refused(
            f"loss: {name} returns neither a number nor one for each vertex: return the mean, or the losses "
            "of all vertices"
        )
    if isinstance(output.rows, Flat):
        output = Value(output.op, output.rows.rows, (output.rows.count, *output.shape))
    if output.rows is not None:
        each = to.reduce("mean", output, range(len(output.shape)), False)
        output = to.emit("row_mean", [each], None, ())
    operations, (last,) = used(to, [output.op])
    for o in operations:
        if o["op"] == "dropout":
            raise Refused(
                f"loss: {o.get('line', '')}: draws random numbers: a loss is the same in each epoch"
            )
    if not any(o["op"] == "logits" for o in operations):
        raise Refused(f"loss: {name} does not depend on the logits: return a function of its first argument")
    return json.dumps({"version": 1, "class": name, "operations": operations, "output": last})


def _said(error: Exception) -> Refused:
    """What is said of a module, about a loss."""
    why = str(error).removeprefix("model: ").replace("weft calls module(", "weft calls the loss as f(")
    what, _, instead = why.rpartition(": ")
    if re.search("propagate|edge|feature|order", instead):
        why = (
            f"{what}: a loss is of each vertex's logits and labels, and of sums and means over the training "
            "vertices"
        )
    return Refused(
        f"loss: {why}; in a loop of your own, by weft.compile, it may be any function (docs/loop.md)"
    )


def _check_calls(loss: Any, logits: Tensor, labels: Tensor, columns: int) -> None:
    """Refuses a loss that keeps something from call to call, or draws random numbers: the first call would
    count for all."""
    tensors = _watch.TensorsRead()
    with _watch.generators(), _Watched(columns):
        try:
            loss(logits, labels)  # which may settle what it keeps
            before, drawn = _watch.kept(loss), _watch.drawn()
            with tensors:
                loss(logits, labels)
        except Unlowerable as error:  # traced, it would be advised to register the parameter
            raise _said(error) from None
        except Exception:  # what the loss raises is said when it is traced
            return
        if _watch.drawn() != drawn:
            raise Refused("loss: draws random numbers of Python or NumPy: a loss is the same in each epoch")
        after = _watch.kept(loss)
    found = _watch.changed(_watch.without_tensors(before), _watch.without_tensors(after))
    if found := found | tensors.changed(before, after):
        raise Refused(f"loss: changes {min(found)} in each call: a loss is the same in each epoch")


def _try(loss: Any, kind: str, shape: tuple[int, ...], columns: int, file: Path) -> None:
    """Refuses a loss that is no number, or that weft computes otherwise, on a small graph.

    Its model is x · Wᵀ with W = 1, so that one step tells the gradient of the logits x.
    """
    random, n = np.random.default_rng(1), max(_TRIED, columns + 7)
    train, width = n - 5, int(np.prod(shape))
    normal, some = random.normal(size=(n, width)), random.uniform(0.05, 0.95, (n, width))
    y: Any = {
        "classes": np.arange(n) % columns,
        "several": random.integers(0, 2, (n, columns)).astype(np.float32),
        "values": random.normal(size=(n, columns)).astype(np.float32),
    }[kind]
    y = y[random.permutation(n)] if kind != "classes" else y
    labels = torch.from_numpy(y[:train])
    if kind == "values":
        scores = (y[:train] - y[:train].mean(0)) / y[:train].std(0)
        labels = torch.from_numpy(scores).reshape(train, *shape)
    value = float("nan")
    for x in (normal, some):  # some losses are of probabilities
        logits = torch.tensor(x[:train].reshape(train, *shape), dtype=torch.float32, requires_grad=True)
        try:
            with _Watched(columns):
                theirs = loss(logits, labels).mean()
            theirs.backward()
        except Exception as error:  # whatever the loss raises
            failed = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            continue
        value, failed = theirs.item(), f"it is {theirs.item()}"
        if np.isfinite(value):
            break
    if not np.isfinite(value):
        raise Refused(
            f"loss: of random logits and labels it is no finite number ({failed}): write it for any logits"
        )
    scratch = Scratch()
    try:
        at = np.arange(n)
        graph = Graph(
            np.zeros((2, 1), int),
            x.astype(np.float32),
            y,
            train_mask=at < train,
            val_mask=at == train,
            test_mask=at > train,
        )
        linear = [
            {"op": "features", "shape": [width]},
            {"op": "parameter", "name": "w"},
            {"op": "linear", "in": [0, 1]},
        ]
        program = {
            "version": 1,
            "class": "linear",
            "operations": linear,
            "output": 2,
            "parameters": [{"name": "w", "shape": [width, width], "trained": True}],
        }
        with scratch.writing("what the loss is tried on"):
            (scratch.path / "linear.json").write_text(json.dumps(program), encoding="utf-8")
            _weights.write(scratch.path / "init.safetensors", {"w": np.eye(width, dtype=np.float32)})
        told = _program.run(
            [
                "train",
                str(graph.store),
                f"--program={scratch.path}/linear.json",
                f"--init={scratch.path}/init.safetensors",
                f"--loss={file}",
                "--optimizer=sgd",
                "--lr=1",
                "--epochs=1",
                "--threads=1",
                "--json",
                f"--out={scratch.path}/run",
            ]
        )
        ours = json.loads(told.splitlines()[-1])["losses"][0]
        step = np.eye(width) - _weights.read(scratch.path / "run" / "model.safetensors")["w"]
    finally:
        scratch.close()
    gradient = logits.grad.reshape(train, width).T.double().numpy() @ x[:train].astype(np.float32)
    apart = max(
        abs(ours - value) / max(1.0, abs(value)),
        np.abs(step - gradient).max() / max(1.0, np.abs(gradient).max()),
    )
    if not apart <= 1e-3:
        raise Refused(
            "loss: on a small graph weft computes a loss, or a gradient, that differs from PyTorch's by "
            f"{apart:.1e}; this is a mistake of weft: please report it with the loss"
        )
