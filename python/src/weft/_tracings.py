"""What a module is traced to, once for each way in which it is called: with some layers in evaluation, and
with what the layers and buffers hold by then. `_divided` asks for these."""

from __future__ import annotations

import threading
import weakref
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from . import _calls, _module, _progress, _watch
from ._compare import compare
from ._copies import copied
from ._errors import Refused
from ._inferred import inferred
from ._model import Traced, counters_of
from ._trace import Outputs, Schema

#: What modules were traced to last, a few of each, as on graphs with and without weights of edges. Each has
#: a key: the schema, and all of the module but the numbers of its parameters.
_known: weakref.WeakKeyDictionary[nn.Module, list[tuple[Any, Traced]]] = weakref.WeakKeyDictionary()
_tracing = threading.RLock()
_CONSTANTS = 5  # the place of constants_of
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks") + tuple(
    f"_{phase}_forward_{pre}hooks"  # of PyG's layers
    for phase in ("propagate", "message", "aggregate", "message_and_aggregate", "edge_update")
    for pre in ("pre_", "")
)
_SIMPLE = (bool, int, float, str, type(None))


def traced(module: nn.Module, schema: Schema, frozen: frozenset[str]) -> Traced:
    """What a module is traced to on a graph, with some layers in evaluation.

    It is what it was before, if nothing of the module has changed.
    """
    shapes = {
        name: (tensor.shape, tensor.dtype)
        for name, tensor in module.state_dict(keep_vars=True).items()
        if isinstance(tensor, Tensor)
    }
    layers = list(module.named_modules())
    key = (
        schema,
        _watch.without_tensors(_watch.kept(module)),
        shapes,
        layers_of(layers),
        momenta_of(layers),
        constants_of(layers),
        frozen,
    )
    known = _known.setdefault(module, [])
    for other, tracing in known:
        if _without(other, counters_of(tracing.program)) == _without(key, counters_of(tracing.program)):
            return tracing
    # What a trace puts into PyTorch is seen by all threads.
    with _tracing, _progress.shown(f"reading {type(module).__name__}"):
        found = _traced(module, schema, Outputs(frozen))
    known[:] = [*known[-3:], (key, found)]
    return found


def _without(key: tuple[Any, ...], counters: set[str]) -> tuple[Any, ...]:
    """What tells a trace from others, but for the numbers that buffers have counted to."""
    return tuple(
        {name: n for name, n in value.items() if name.removeprefix(".") not in counters}
        if k == _CONSTANTS
        else value
        for k, value in enumerate(key)
    )


def _traced(module: nn.Module, schema: Schema, outputs: Outputs) -> Traced:
    with _watch.generators():
        own = copied(module).cpu()
        for p in own.parameters():
            p.requires_grad_(p.is_floating_point())
        _, program = _module.program_of(own, schema, outputs)
    _refuse_repeated(program)
    found = Traced(program, outputs, compare(own, schema, program, outputs, inferred))
    _calls.program().give_back()  # what the comparison took
    return found


def _refuse_repeated(program: Mapping[str, Any]) -> None:
    """Refuses statistics that a backward pass moves once more, as PyTorch's do below a checkpoint."""
    for o in program["operations"]:
        if o["op"] == "batch_norm" and o.get("times", 1) > 1 and "mean" in o:
            raise Refused(
                f"module: {o['mean']}: below torch.utils.checkpoint, or in a reversible layer, a backward "
                'pass moves it once more: call the layers directly, and take recompute="blocks" to save '
                "memory"
            )


def layers_of(layers: Iterable[tuple[str, nn.Module]]) -> list[Any]:
    """The layers of a module, by their paths: their classes, attributes that are numbers and words but for
    momenta of batch norms, and hooks, which are called when the module is traced."""
    return [
        (
            path,
            layer.code
            if isinstance(layer, torch.fx.GraphModule)
            else type(layer),  # whose copies have classes of their own
            {
                name: value
                for name, value in _attributes(layer)
                if isinstance(value, _SIMPLE) and _says(name) and not (name == "momentum" and _is_norm(layer))
            },
            [_watch.name_of(hook) for kind in _HOOKS for hook in (vars(layer).get(kind) or {}).values()],
        )
        for path, layer in layers
    ]


def momenta_of(layers: Iterable[tuple[str, nn.Module]]) -> tuple[float | None, ...]:
    """The momenta of the batch norms among layers, None for a mean of all batches: ``update_bn`` sets
    these."""
    return tuple(layer.momentum for _, layer in layers if _is_norm(layer))


def _is_norm(layer: nn.Module) -> bool:
    return isinstance(layer, nn.modules.batchnorm._BatchNorm)


def constants_of(layers: Iterable[tuple[str, nn.Module]]) -> dict[str, int]:
    """Checksums of the tensors of layers whose numbers are read when it is traced: whole numbers and truth
    values, buffers that are not saved, and tensors that are attributes."""
    found = {}
    for path, layer in layers:
        tensors = {name: value for name, value in _attributes(layer) if isinstance(value, Tensor)}
        for name, buffer in layer.named_buffers(recurse=False) if layer._buffers else ():
            if not buffer.is_floating_point() or name in layer._non_persistent_buffers_set:
                tensors[name] = buffer
        for name, buffer in tensors.items():
            if name != "num_batches_tracked" and not name.startswith("_cached"):
                numbers = buffer.detach().cpu().contiguous()
                found[f"{path}.{name}"] = zlib.crc32(numbers.reshape(-1).view(torch.uint8).numpy())
    return found


#: The attributes of each layer, which say nothing of what it computes.
_OF_MODULES = frozenset(vars(nn.Module()))


def _attributes(layer: nn.Module) -> Iterator[tuple[str, Any]]:
    """The attributes of a layer that not each one has."""
    return (pair for pair in vars(layer).items() if pair[0] not in _OF_MODULES)


def _says(name: str) -> bool:
    """Whether an attribute of that name says what a layer computes."""
    return name != "training" and not name.startswith("_")
