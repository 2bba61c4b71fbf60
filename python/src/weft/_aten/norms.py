"""Batch, instance, group and layer norm."""

from __future__ import annotations

import math
from typing import Any

from .._lowering import Lowering, lowers, times_of
from .._values import Unlowerable, Value, kind_of
from .reductions import kept


@lowers(
    "batch_norm",
    "native_batch_norm",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_functional",
    "_native_batch_norm_legit_no_training",
    "cudnn_batch_norm",
)
def _batch_norm(
    to: Lowering,
    input: Any,
    weight: Any,
    bias: Any,
    running_mean: Any = None,
    running_var: Any = None,
    training: bool = True,
    momentum: Any = 0.1,
    eps: float = 1e-5,
    **_: Any,
) -> Any:
    x = to.value(input)
    names = [
        to.operation_of(v)["name"] if isinstance(v, Value) and to.is_a(v, "parameter") else None
        for v in (weight, bias, running_mean, running_var)
    ]
    stored = running_mean is not None
    training = training and not to.name.endswith("no_training")
    if stored and training and None in names[2:]:
        raise Unlowerable(
            "batch norm changes statistics that are no buffers of the module: give track_running_stats=False"
        )
    if not stored or not (training or (not to.training and names[2] not in to.frozen)):
        to.frozen |= {str(names[2])} if stored else set()
        return _normalised(to, x, weight, bias, eps, running_mean, running_var)
    if kind_of(x.rows) is None or x.axis or len(x.shape) != 1:
        raise Unlowerable(
            "batch norm of other rows than those of vertices or edges: normalise each by nn.LayerNorm"
        )
    counter = str(names[2]).removesuffix("running_mean") + "num_batches_tracked"
    statistics = {
        k: v for k, v in zip(("weight", "bias", "mean", "variance", "batches"), (*names, counter)) if v
    }
    if not math.isnan(momentum):  # NaN stands for the mean over all batches
        statistics["momentum"] = momentum
    if (times := times_of(to.node)) > 1:
        statistics["times"] = times
    out = to.emit("batch_norm", [x], x.rows, x.shape, eps=eps, **statistics)
    for name, op, v in zip(
        names, ("mul", "add"), (weight, bias)
    ):  # weights and biases that are no parameters
        out = out if v is None or name else to.pointwise(op, out, to.value(v))
    return out


@lowers("instance_norm")
def _instance_norm(to: Lowering, input: Any, weight: Any, bias: Any, eps: float, **more: Any) -> Any:
    if more["running_mean"] is not None:
        raise Unlowerable("instance norm with running statistics: give track_running_stats=False")
    return _normalised(to, to.value(input), weight, bias, eps, None, None)


def _normalised(
    to: Lowering, x: Value, weight: Any, bias: Any, eps: float, mean: Any, variance: Any
) -> Value:
    """x normalised by the mean and variance of each channel, or by given ones."""

    def spread(v: Any) -> Value:
        return to.reshape(v, [v.shape[0] if d == 1 else 1 for d in range(x.dim)])

    if mean is None:
        over = [d for d in range(x.dim) if d != 1 and (d != 0 or x.dim == 2 or x.axis == 0)]
        rows, columns = to.dims(x, over)
        mean = kept(to, x, rows, columns, x)
        variance = kept(to, to.pointwise("square", to.pointwise("sub", x, mean)), rows, columns, x)
    else:
        mean, variance = spread(mean), spread(variance)
    out = to.pointwise("sub", x, mean)
    out = to.pointwise("mul", out, to.pointwise("rsqrt", to.pointwise("add", variance, to.constant(eps))))
    out = out if weight is None else to.pointwise("mul", out, spread(weight))
    return out if bias is None else to.pointwise("add", out, spread(bias))


@lowers("group_norm")
def _group_norm(
    to: Lowering, input: Any, num_groups: int, weight: Any, bias: Any, eps: float, **_: Any
) -> Any:
    x = to.value(input)
    if x.rows is None or x.axis:
        raise Unlowerable("group norm over the vertices: use GraphNorm, or normalise the last dimensions")
    parts = to.reshape(x, (num_groups, math.prod(x.shape) // num_groups))
    out = to.reshape(to.emit("layer_norm", [parts], x.rows, parts.shape, dims=[1], eps=eps), x.shape)
    for name, v in (("mul", weight), ("add", bias)):
        if v is not None:
            out = to.pointwise(name, out, to.reshape(v, (*v.shape, *(1,) * (len(x.shape) - 1))))
    return out


@lowers("layer_norm", "native_layer_norm")
def _layer_norm(
    to: Lowering, input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float, **_: Any
) -> Any:
    x, last = to.value(input), len(normalized_shape)
    if x.rows is not None and x.axis >= x.dim - last:
        raise Unlowerable("layer norm over the vertices: use GraphNorm, or normalise the last dimensions")
    if bias is not None and weight is None:
        raise Unlowerable("layer norm with a bias and no weight")
    more = [to.value(v) for v in (weight, bias) if v is not None]
    dims = list(range(len(x.shape) - last, len(x.shape)))
    return to.emit("layer_norm", [x, *more], x.rows, x.shape, x.axis, dims=dims, eps=eps)
