"""Passes of a model in PyTorch's autograd, whose tensors go through shared memory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor

from . import _calls
from ._errors import Refused
from ._inputs import Input
from ._model import Model
from ._rows import Rows, rows_of

NOT_EXPORTED = "a compiled module belongs to its process, and is not exported: export net.module"
_NO_FUNCTION = (
    "a compiled module has no vmap, jvp or nested derivatives: take backward() or torch.autograd.grad, and "
    "samples=True for several x"
)

#: Tells whether a backward pass that runs retains its graph. PyTorch 2.2 lacks it.
_retains = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)


def passed(
    model: Model,
    state: Mapping[str, Tensor],
    training: bool,
    samples: Sequence[Sequence[Input]],
    rows: Any = None,
) -> list[list[Tensor]]:
    """The outputs of a pass by sample, which are differentiable in the inputs and in the parameters of the
    state.

    Args:
        model: what the pass is of.
        state: the tensors of the module by all their names. A pass in training writes its buffers.
        training: whether dropout is active, and norms take the batch's statistics.
        samples: what each is given in place of what the graph has.
        rows: the vertices whose rows the outputs have, as an index, or a dict of these by vertex type;
            None: all.

    Raises:
        Refused: rows are not those of vertices, or the pass is within what it has no part in.
        Failed: the work failed.
    """
    blocks = model.blocks
    having = [block["type"] for block in blocks if not (block["whole"] or block["edges"])]
    if rows is not None and not having:
        raise Refused("rows: forward returns no rows of vertices: leave it out")
    if rows is not None and model.processes > 1:
        raise Refused(
            "rows: over processes outputs have the rows of this process, net.vertices: leave it out, and "
            "choose from the outputs"
        )
    some = {} if rows is None else rows_of(rows, model.types, having)
    parameters = [state[name] for name in model.parameters]
    tensors = [*(entry.values for inputs in samples for entry in inputs), *parameters]
    if torch._C._are_functorch_transforms_active():
        raise Refused(f"torch.func: {_NO_FUNCTION}")
    if torch.jit.is_tracing() or any(isinstance(tensor, FakeTensor) for tensor in tensors):
        raise Refused(f"torch.export and torch.jit.trace: {NOT_EXPORTED}")
    recording = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    made = list(_Pass.apply(_Call(model, samples, some, training, recording), state, *tensors))
    for k, block in enumerate(blocks * len(samples)):
        chosen = None if block["whole"] or block["edges"] else some.get(block["type"])
        if chosen is not None and chosen.places is not None:
            made[k] = made[k][chosen.places]
    features = [entry.values for entry in samples[0] if entry.field == "features"]
    device = next((tensor.device for tensor in (*features, *parameters, *tensors)), torch.device("cpu"))
    outputs = iter([output.to(device) for output in made])
    return [[next(outputs) for _ in blocks] for _ in samples]


def _tensors(memory: _calls.Memory, shapes: Iterable[Sequence[int]]) -> list[Tensor]:
    """Tensors of these shapes, which stand one behind the other in memory.

    For autograd none is a view of another.
    """
    found, at = [], 0
    for shape in shapes:
        end = at + math.prod(shape)
        found.append(torch.from_numpy(memory.numbers[at:end].reshape(shape)))
        at = end
    return found


def _fill(memory: _calls.Memory, tensors: Sequence[Tensor]) -> None:
    """Writes the numbers of tensors into memory, one behind the other."""
    for to, tensor in zip(_tensors(memory, [tensor.shape for tensor in tensors]), tensors):
        to.copy_(tensor.detach())


class _Call:
    """A call of a model: its forward pass, and the backward pass if it records.

    When it is garbage the program drops the pass. Tensors of the caller are autograd's to keep.
    """

    def __init__(
        self,
        model: Model,
        samples: Sequence[Sequence[Input]],
        rows: Mapping[int, Rows],
        training: bool,
        recording: bool,
    ) -> None:
        self.model, self.training, self.recording = model, training, recording
        inputs = [(number, entry) for number, sample in enumerate(samples) for entry in sample]
        self.inputs = [(entry.field, entry.type) for _, entry in inputs]
        self.sample = [number for number, _ in inputs]
        self.differentiable = [recording and entry.values.requires_grad for _, entry in inputs]
        self.outputs = len(model.blocks)  # of a sample
        self.shapes = model.shapes({number: len(chosen.vertices) for number, chosen in rows.items()}) * len(
            samples
        )
        self.memories: list[_calls.Memory] = []  # what the program reads until the pass ends
        self.fields: dict[str, Any] = {"blocks": model.blocks}  # of both requests
        listed = []
        for number, chosen in rows.items():
            memory = model.program.memory(len(chosen.vertices))
            memory.numbers.view(np.int32)[:] = chosen.vertices.numpy()
            self.memories.append(memory)
            listed.append({"type": number, "memory": memory.number, "listed": len(chosen.vertices)})
        if listed:
            self.fields["rows"] = listed
        self.number = next(model.program.numbers)
        self.ended = False  # whether it has run backward for the last time
        if recording:
            self.watched = model.program.passes.watch(self, (model.number, self.number))

    def forward(self, state: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> list[Tensor]:
        """The outputs. In training the buffers of the state change."""
        model, program = self.model, self.model.program
        floats = [state[name] for name in (*model.parameters, *model.buffers)]
        sizes = sum(tensor.numel() for tensor in floats), sum(map(math.prod, self.shapes))
        values, output, *memories = program.pieces([*sizes, *(tensor.numel() for tensor in inputs)])
        _fill(values, floats)
        for memory, tensor in zip(memories, inputs):
            _fill(memory, [tensor])
        self.memories += [memory for memory, (field, _) in zip(memories, self.inputs) if field != "features"]
        seeds = [0] * model.groups
        if model.draws[self.training]:
            seeds = [int(torch.empty((), dtype=torch.int64, device="cpu").random_()) for _ in seeds]
        answer = self.ask(
            "forward",
            values,
            memories,
            output,
            counts=[int(state[name]) for name in model.counters],
            seeds=seeds,
            training=self.training,
            recording=self.recording,
        )
        if self.training:
            _write_back(model, state, values, answer.get("counts", ()))
        return _tensors(output, self.shapes)

    def backward(
        self, tensors: Sequence[Tensor], grads: Sequence[Tensor | None], needed: Sequence[bool], again: bool
    ) -> list[Tensor | None]:
        """The gradients of the tensors; None: it is not needed, or no output that is read depends on one.

        Args:
            tensors: the inputs, and then the parameters.
            grads: the gradients of the outputs; None: nothing reads it.
            needed: whether a tensor has a gradient.
            again: the pass stays, for another backward pass.
        """
        model, program, count = self.model, self.model.program, len(self.inputs)
        reached: set[tuple[int, str, int]] = set()
        learned: set[str] = set()
        for k, grad in enumerate(grads):
            sample, number = divmod(k, self.outputs)
            if (
                grad is not None or model.processes > 1
            ):  # the losses of other processes may read other outputs
                reached |= {(sample, *one) for one in model.reached[number].inputs}
                learned |= model.reached[number].parameters & model.learned
        zero = torch.zeros(())
        filled = [zero.expand(shape) if grad is None else grad for shape, grad in zip(self.shapes, grads)]
        asked = [
            differentiable and (sample, *what) in reached
            for differentiable, sample, what in zip(self.differentiable, self.sample, self.inputs)
        ]
        sizes = sum(map(math.prod, self.shapes)), sum(map(math.prod, model.parameters.values()))
        output, values, *rest = program.pieces(
            [*sizes, *(tensor.numel() for tensor, is_asked in zip(tensors, asked) if is_asked)]
        )
        of_inputs = iter(rest)
        memories = [next(of_inputs) if is_asked else None for is_asked in asked]
        _fill(output, filled)
        self.ask("backward", values, memories, output, again=again)
        if not again:
            self.ended = True
            self.memories.clear()
            program.passes.forget(self.watched)
        found = [
            None if memory is None else _tensors(memory, [tensor.shape])[0].to(tensor.device, tensor.dtype)
            for tensor, memory in zip(tensors, memories)
        ]
        by_name = zip(model.parameters, _tensors(values, model.parameters.values()))
        for (name, grad), tensor, need in zip(by_name, tensors[count:], needed[count:]):
            found.append(grad.to(tensor.device, copy=True) if need and name in learned else None)
        return found

    def ask(
        self,
        ask: str,
        values: _calls.Memory,
        inputs: Sequence[_calls.Memory | None],
        output: _calls.Memory,
        **fields: Any,
    ) -> dict[str, Any]:
        """Asks for a pass: values and inputs with their numbers, or where their gradients go."""
        entries = [
            {
                "of": field,
                "type": kind,
                "memory": memory.number,
                "differentiable": differentiable,
                "sample": sample,
            }
            for (field, kind), sample, memory, differentiable in zip(
                self.inputs, self.sample, inputs, self.differentiable
            )
            if memory is not None
        ]
        fields |= {"pass": self.number, **self.fields}
        numbers = {"values": values.number, "inputs": entries, "output": output.number}
        return self.model.ask_pass(ask, keeps=(self, values, inputs, output), **numbers, **fields)


def _write_back(
    model: Model, state: Mapping[str, Tensor], values: _calls.Memory, counts: Iterable[int]
) -> None:
    """Writes the buffers that a pass in training has changed, as PyTorch does."""
    shapes = (*model.parameters.values(), *model.buffers.values())
    with torch.no_grad():
        for name, now in zip(model.buffers, _tensors(values, shapes)[len(model.parameters) :]):
            if not torch.equal(state[name].cpu().to(now), now):
                state[name].copy_(now)
        for name, count in zip(model.counters, counts):
            state[name].fill_(count)


class _Pass(torch.autograd.Function):  # type: ignore[misc]
    """A pass of a model: its outputs are of its inputs and of the parameters."""

    @staticmethod
    def forward(ctx: Any, call: _Call, state: Mapping[str, Tensor], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.call = call
        made = call.forward(state, tensors[: len(call.inputs)])
        ctx.save_for_backward(*tensors)
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        tensors = ctx.saved_tensors  # PyTorch refuses those that have changed
        if all(grad is None for grad in grads):
            return (None,) * (2 + len(tensors))
        if torch.is_grad_enabled():
            raise Refused("create_graph=True: a compiled module has no second derivative: leave it out")
        if any(grad is not None and "Batched" in str(torch._C._dispatch_keys(grad)) for grad in grads):
            raise Refused(f"is_grads_batched=True: {_NO_FUNCTION}")
        if ctx.call.ended:
            raise Refused("retain_graph=True: this PyTorch does not tell of it: install 2.6 or later")
        again = _retains is not None and _retains()
        return (None, None, *ctx.call.backward(tensors, grads, ctx.needs_input_grad[2:], again))

    @staticmethod
    def jvp(ctx: Any, *_: Any) -> Any:
        raise Refused(f"torch.autograd.forward_ad: {_NO_FUNCTION}")
