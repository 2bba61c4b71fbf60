"""Passes of a model in PyTorch's autograd, whose tensors go through shared memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from . import _calls
from ._errors import Refused

if TYPE_CHECKING:
    from ._model import Model


@dataclass(frozen=True)
class Input:
    """Values in place of the graph's."""

    of: str  # features
    type: int  # the number of the vertex type
    values: Tensor  # a row for each of its vertices


NOT_EXPORTED = "a compiled module belongs to its process, and is not exported: export net.module"
_NO_FUNCTION = (
    "a compiled module has no vmap, jvp or nested derivatives: take backward() or torch.autograd.grad, and "
    "samples=True for several x"
)


def passed(
    model: Model,
    state: dict[str, Tensor],
    training: bool,
    inputs: Sequence[Input],
    rows: Tensor | None = None,
) -> list[Tensor]:
    """The outputs of a pass, which are differentiable in the inputs and in the parameters of the state.

    rows: the vertices whose rows they have, as an index; None: all.
    """
    if rows is not None and len(model.types) > 1:
        raise Refused("rows: the graph has several vertex types: index the outputs of net()")
    listed, places = (None, None) if rows is None else _listed(rows, model.types[0].vertices)
    tensors = [*(of.values for of in inputs), *(state[name] for name in model.parameters)]
    if torch._C._are_functorch_transforms_active():
        raise Refused(f"torch.func: {_NO_FUNCTION}")
    if torch.jit.is_tracing() or any(isinstance(of, FakeTensor) for of in tensors):
        raise Refused(f"torch.export and torch.jit.trace: {NOT_EXPORTED}")
    gradient = torch.is_grad_enabled() and any(of.requires_grad for of in tensors)
    call = _Call(model, state, training, gradient, [(of.of, of.type) for of in inputs], listed)
    made = list(_Pass.apply(call, *tensors))
    if places is None:
        return made
    return [of if block["whole"] else of[places.to(of.device)] for of, block in zip(made, model.blocks)]


def _listed(rows: Tensor, vertices: int) -> tuple[Tensor, Tensor | None]:
    """The vertices that an index chooses, int32 and ascending, and where those of the index are among them; None:
    they are the same."""
    kind = f"{rows.dtype} {tuple(rows.shape)}" if isinstance(rows, Tensor) else type(rows).__name__
    if not isinstance(rows, Tensor) or rows.dim() != 1 or rows.is_floating_point() or rows.is_complex():
        raise Refused(f"rows: is {kind}: give numbers of vertices, or {vertices} truth values")
    if rows.dtype == torch.bool and len(rows) != vertices:
        raise Refused(f"rows: is {kind}: give {vertices} truth values, or numbers of vertices")
    index = rows.detach().cpu()
    index = index.nonzero()[:, 0] if rows.dtype == torch.bool else index.long()
    if len(index) and not (-vertices <= int(index.min()) and int(index.max()) < vertices):
        raise Refused(f"rows: has vertices {int(index.min())} to {int(index.max())}, and there are {vertices}")
    found, places = torch.unique(index % vertices, return_inverse=True)
    if len(found) == 0:
        return torch.zeros(1, dtype=torch.int32), places
    return found.int(), None if torch.equal(places, torch.arange(len(index))) else places


class _Call:
    """A call of a model, and its pass until nobody has it any more."""

    def __init__(
        self,
        model: Model,
        state: dict[str, Tensor],
        training: bool,
        gradient: bool,
        given: list[tuple[str, int]],
        listed: Tensor | None,
    ) -> None:
        self.model, self.training, self.gradient = model, training, gradient
        self.state = state
        self.given = given  # what the inputs are
        self.listed = listed  # the vertices whose rows are asked for, int32 and ascending; None: all
        self.differentiable = [False] * len(given)
        self.device = torch.device("cpu")

    def forward(self, inputs: Sequence[Tensor], parameters: Sequence[Tensor]) -> list[Tensor]:
        model, state = self.model, self.state
        values = model.program.memory(model.floats)
        floats = torch.from_numpy(values.numbers)
        tensors = [*parameters, *(state[name] for name in model.buffers)]
        at = 0
        for of in tensors:
            floats[at : at + of.numel()].copy_(of.detach().reshape(-1))
            at += of.numel()
        given = [self.memory_of(of) for of in inputs]
        for memory, of in zip(given, inputs):
            torch.from_numpy(memory.numbers).view(of.shape).copy_(of.detach())
        # What is given of edges is read until the pass ends.
        self.held = [memory for memory, (of, _) in zip(given, self.given) if of != "features"]
        self.differentiable = [self.gradient and of.requires_grad for of in inputs]
        output = model.program.memory(self.numbers())
        listed = {}
        if self.listed is not None:
            rows = model.program.memory(len(self.listed))
            rows.numbers.view(np.int32)[: len(self.listed)] = self.listed.numpy()
            self.held.append(rows)
            listed = self.rows_of = {"rows": rows.number, "listed": len(self.listed)}
        seed = 0
        if self.training and model.draws:
            seed = int(torch.empty((), dtype=torch.int64, device="cpu").random_())
        self.number = next(model.program.numbers)
        if self.gradient:
            self.watched = model.program.passes.watch(self, (model.number, self.number))
        answer = model.ask(
            "forward",
            **{"pass": self.number},
            values=values.number,
            counters=[int(state[name]) for name in model.counters],
            inputs=self.inputs(given),
            output=output.number,
            seed=seed,
            training=self.training,
            recording=self.gradient,
            **listed,
        )
        if self.training:
            self.keep(floats, answer)
        self.state = {}
        return [self.place(of) for of in self.rows(output)]

    def memory_of(self, tensor: Tensor) -> _calls.Memory:
        return self.model.program.memory(tensor.numel())

    def inputs(self, memory: Sequence[_calls.Memory | None]) -> list[dict[str, Any]]:
        """What is said of the inputs that have memory."""
        return [
            {"of": of, "type": kind, "memory": at.number, "differentiable": differentiable}
            for (of, kind), at, differentiable in zip(self.given, memory, self.differentiable)
            if at is not None
        ]

    def keep(self, floats: Tensor, answer: dict[str, Any]) -> None:
        """Writes running statistics back, as PyTorch does in a pass in training."""
        model, at = self.model, sum(map(math.prod, self.model.parameters.values()))
        with torch.no_grad():
            for name, shape in model.buffers.items():
                now = floats[at : at + math.prod(shape)].view(shape)
                if not torch.equal(self.state[name].cpu(), now):
                    self.state[name].copy_(now)
                at += math.prod(shape)
            for name, count in zip(model.counters, answer.get("counters", ())):
                self.state[name].fill_(count)

    def rows(self, memory: _calls.Memory) -> list[Tensor]:
        """The outputs, or their gradients, in shared memory."""
        found, at = [], 0
        for shape in self.shapes():
            size = math.prod(shape)
            found.append(torch.from_numpy(memory.numbers[at : at + size].reshape(shape)))
            at += size
        return found

    def shapes(self) -> list[tuple[int, ...]]:
        """Those of the outputs."""
        listed = None if self.listed is None else (len(self.listed),)
        model = self.model
        return [(*(rows and (listed or rows)), *of) for rows, of in zip(model.rows, model.outputs.shapes)]

    def numbers(self) -> int:
        """How many all outputs have."""
        return sum(map(math.prod, self.shapes()))

    def place(self, of: Tensor) -> Tensor:
        return of if self.device.type == "cpu" else of.to(self.device)

    def backward(
        self, grads: Sequence[Tensor | None], inputs: Sequence[Tensor], again: bool
    ) -> tuple[list[Tensor | None], dict[str, Tensor]]:
        """The gradients of the inputs, and of the parameters by their names."""
        model = self.model
        memory = model.program.memory(self.numbers())
        for to, grad in zip(self.rows(memory), grads):
            if grad is None:
                to.zero_()
            else:
                to.copy_(grad)
        values = model.program.memory(sum(map(math.prod, model.parameters.values())))
        read = [of for of, grad in zip(model.reached, grads) if grad is not None]
        depends = set().union(*(of.inputs for of in read))
        wanted = [
            differentiable and of in depends for of, differentiable in zip(self.given, self.differentiable)
        ]
        given = [self.memory_of(of) if wants else None for of, wants in zip(inputs, wanted)]
        model.ask(
            "backward",
            **{"pass": self.number},
            output=memory.number,
            values=values.number,
            inputs=self.inputs(given),
            again=again,
            **({} if self.listed is None else self.rows_of),
        )
        if not again:
            model.program.passes.forget(self.watched)
        floats, at, found = torch.from_numpy(values.numbers), 0, {}
        reached: set[str] = set().union(*(of.parameters for of in read))
        for name, shape in model.parameters.items():
            if name in model.learned and name in reached:
                found[name] = floats[at : at + math.prod(shape)].view(shape).clone()
            at += math.prod(shape)
        return [
            None if at is None else torch.from_numpy(at.numbers).view(of.shape).to(of.device, of.dtype)
            for at, of in zip(given, inputs)
        ], found


class _Pass(torch.autograd.Function):  # type: ignore[misc]
    """A pass of a model: its outputs are of its inputs and of the parameters."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.call, count = call, len(call.given)
        placed = [of for of, (what, _) in zip(tensors, call.given) if what == "features"]
        if placed := [*placed, *tensors[count:], *tensors]:
            call.device = placed[0].device
        made = tuple(call.forward(tensors[:count], tensors[count:]))
        ctx.save_for_backward(*tensors)
        return made

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        tensors = ctx.saved_tensors  # PyTorch refuses those that have changed
        if all(grad is None for grad in grads):
            return (None,) * (1 + len(tensors))
        if torch.is_grad_enabled():
            raise Refused("create_graph=True: a compiled module has no second derivative: leave it out")
        if any(of is not None and torch._C._functorch.is_legacy_batchedtensor(of) for of in grads):
            raise Refused(f"is_grads_batched=True: {_NO_FUNCTION}")
        call: _Call = ctx.call
        count = len(call.given)
        again = torch._C._autograd._get_current_graph_task_keep_graph()
        given, found = call.backward(grads, tensors[:count], again)
        needs = ctx.needs_input_grad[1 + count :]
        by_name = [found.get(name) if need else None for name, need in zip(call.model.parameters, needs)]
        by_name = [of if of is None else of.to(p.device) for of, p in zip(by_name, tensors[count:])]
        return (None, *given, *by_name)

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Any:
        raise Refused(f"torch.autograd.forward_ad: {_NO_FUNCTION}")
