"""What processes of a launcher do together beside passes: each has the rows of its worker."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from . import _program
from ._errors import Refused

if TYPE_CHECKING:
    from ._calls import Memory
    from ._model import Model


def begin(model: Model, module: nn.Module) -> None:
    """Gives the parameters and buffers of the first process to all, or warns of processes by themselves."""
    if model.processes == 1:
        _program.warn_if_launched(
            'computes the whole graph by itself: give parallel="graph=N", and each is one of N workers'
        )
        return
    state = model.tensors_of(module)
    tensors = [state[name] for name in (*model.parameters, *model.buffers, *model.counters)]
    floats, counts = (
        [tensor for tensor in tensors if tensor.is_floating_point() == kind] for kind in (True, False)
    )
    with torch.no_grad():
        for tensor, first in zip(
            floats, _of_first(model, [tensor.detach().reshape(-1).cpu() for tensor in floats])
        ):
            _set(tensor, first)
        doubles = [tensor.detach().reshape(-1).cpu().double() for tensor in counts]
        for tensor, first in zip(
            counts, _of_first(model, [tensor.view(torch.float32) for tensor in doubles])
        ):
            _set(tensor, first.clone().view(torch.float64))


def _set(tensor: Tensor, values: Tensor) -> None:
    """Writes values that a tensor does not have: others may wait for a backward pass."""
    if not torch.equal(tensor.reshape(-1).cpu().to(values.dtype), values):
        tensor.copy_(values.view_as(tensor))


def _of_first(model: Model, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """What the first process has for tensors of one dimension, to the bit."""
    if not tensors:
        return ()
    memory = model.program.memory(sum(map(len, tensors)))
    numbers = torch.from_numpy(memory.numbers)
    torch.cat(tensors, out=numbers)
    model.ask("first", values=memory.number, listed=len(numbers))
    firsts: Sequence[Tensor] = numbers.split([len(tensor) for tensor in tensors])
    return firsts


def vertices(model: Model, kind: int) -> Tensor:
    """The vertices of a type whose rows this process has: int64, ascending."""
    memory = model.program.memory(max(1, model.types[kind].vertices))
    model.ask("vertices", type=kind, vertices=memory.number)
    return torch.from_numpy(memory.numbers.view(np.int32)[: model.types[kind].vertices].astype(np.int64))


def edges(model: Model, relation: int) -> Tensor:
    """The edges of a relation into the rows of this process, by their numbers in the store: int64,
    ascending."""
    count = list(model.edges.values())[relation]
    memory = model.program.memory(2 * max(1, count))
    model.ask("edges", type=relation, vertices=memory.number)
    return torch.from_numpy(memory.numbers.view(np.int64)[:count].copy())


def total(
    model: Model,
    tensor: Tensor,
    of_group: bool = False,
    call: str = "",
    alike: Sequence[Mapping[str, Any]] = (),
) -> Tensor:
    """The sum of what each process has, or each of this one's group.

    Args:
        call: names the call in errors.
        alike: checksums of what all processes bring alike.
    """
    if tensor.dtype == torch.bool:
        tensor = tensor.long()
    if model.processes == 1:
        return tensor
    call = call or f"sum of {' × '.join(map(str, tensor.shape)) or 1} numbers"
    made: Tensor = _Sum.apply(model, tensor, of_group, call, alike)
    return made


class _Sum(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any, model: Model, tensor: Tensor, of_group: bool, call: str, alike: Sequence[Mapping[str, Any]]
    ) -> Tensor:
        ctx.saved = model, of_group, call
        memory = model.program.memory(2 * max(1, tensor.numel()))
        numbers = memory.numbers.view(np.float64)[: tensor.numel()]
        numbers[:] = tensor.detach().cpu().reshape(-1).double().numpy()
        model.ask(
            "sum", values=memory.number, listed=tensor.numel(), of_group=of_group, call=call, alike=alike
        )
        return torch.from_numpy(numbers).to(tensor.device, tensor.dtype, copy=True).view_as(tensor)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, None, None, None]:
        model, of_group, call = ctx.saved
        return None, total(model, grad, of_group, f"backward of {call}"), None, None, None


def checksums(tensors: Sequence[Tensor]) -> list[dict[str, Any]]:
    """Checksums of parameters, by their places, as total takes them."""
    found = []
    for number, tensor in enumerate(tensors):
        numbers = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
        checksum = zlib.crc32(numbers, zlib.crc32(f"{tensor.dtype} {tuple(tensor.shape)}".encode()))
        found.append({"name": f"parameter {number}", "sum": checksum})
    return found


def fetched(model: Model, kind: int, tensor: Tensor, vertices: Tensor) -> Tensor:
    """The rows of vertices, of a tensor of which each process has the rows of its own."""
    if tensor.dtype != torch.float32 or tensor.dim() < 1 or len(tensor) != model.types[kind].vertices:
        raise Refused(
            f"rows: is of {tensor.dtype} {tuple(tensor.shape)}: give float32 with the "
            f"{model.types[kind].vertices} rows of this process, as net() returns them"
        )
    if len(vertices) == 0:
        vertices = vertices.long()
    if vertices.dim() != 1 or vertices.is_floating_point() or vertices.dtype in (torch.bool, torch.uint8):
        raise Refused(
            f"rows: vertices are {vertices.dtype} {tuple(vertices.shape)}: give a list of vertex ids"
        )
    if model.processes == 1:
        return tensor[vertices.to(tensor.device)]
    made: Tensor = _Rows.apply(model, kind, tensor, vertices.detach().cpu())
    return made


class _Rows(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, model: Model, kind: int, tensor: Tensor, vertices: Tensor) -> Tensor:
        ctx.saved = model, kind, tensor.shape, vertices
        found = torch.zeros(len(vertices), *tensor.shape[1:])
        return _exchanged("fetch", model, kind, tensor, found, vertices).to(tensor.device)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor, None]:
        if torch.is_grad_enabled():
            raise Refused(
                "create_graph=True: rows of other processes have no second derivative: leave it out"
            )
        model, kind, shape, vertices = ctx.saved
        local = torch.zeros(shape)
        return None, None, _exchanged("return", model, kind, local, grad, vertices).to(grad.device), None


def _exchanged(ask: str, model: Model, kind: int, local: Tensor, listed: Tensor, vertices: Tensor) -> Tensor:
    """The rows of the list after they have been fetched, or this process's after those of the list have
    come."""
    values, output = _memory_of(model, local), _memory_of(model, listed)
    rows = model.program.memory(max(1, len(vertices)))
    rows.numbers.view(np.int32)[: len(vertices)] = vertices.numpy()
    columns = math.prod(local.shape[1:])
    places: dict[str, Any] = {"values": values.number, "output": output.number, "vertices": rows.number}
    model.ask(ask, type=kind, columns=columns, listed=len(vertices), **places)
    memory, like = (output, listed) if ask == "fetch" else (values, local)
    return torch.from_numpy(memory.numbers[: like.numel()]).view(like.shape)


def _memory_of(model: Model, tensor: Tensor) -> Memory:
    memory = model.program.memory(max(1, tensor.numel()))
    torch.from_numpy(memory.numbers)[: tensor.numel()].copy_(tensor.detach().reshape(-1))
    return memory
