"""Groups that take other samples, of one process of PyTorch in float64: what nets of several processes are
beside.

Each group is a thread with a copy of the module. One works at a time, until it needs what the others have.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn


class Together:
    """Threads that exchange values, each in its turn."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.turns = [threading.Semaphore(int(k == 0)) for k in range(count)]
        self.rounds: dict[int, list[Any]] = {}
        self.calls = [0] * count
        self.failed: list[BaseException] = []

    def exchange(self, group: int, value: Any) -> list[Any]:
        """What all have given in this call."""
        number = self.calls[group]
        self.calls[group] += 1
        self.rounds.setdefault(number, []).append(value)
        self._next(group)
        self.turns[group].acquire()
        if self.failed:
            raise RuntimeError("another group has failed")
        return self.rounds[number]

    def _next(self, group: int) -> None:
        self.turns[(group + 1) % self.count].release()

    def run(self, work: Callable[[int], Any]) -> list[Any]:
        """What work returns for each group."""
        made: list[Any] = [None] * self.count

        def worker(group: int) -> None:
            self.turns[group].acquire()
            try:
                made[group] = work(group)
            except BaseException as error:
                self.failed.append(error)
            finally:
                self._next(group)

        threads = [threading.Thread(target=worker, args=(group,)) for group in range(self.count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.failed:
            raise self.failed[0]
        return made


class _Sum(torch.autograd.Function):  # type: ignore[misc]
    """The sum of a tensor of each group. The gradient of each is the sum of those of the results."""

    @staticmethod
    def forward(ctx: Any, together: Together, group: int, tensor: Tensor) -> Tensor:
        ctx.saved = together, group
        return torch.stack(together.exchange(group, tensor.detach().clone())).sum(0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor]:
        together, group = ctx.saved
        return None, None, torch.stack(together.exchange(group, grad.clone())).sum(0)


class _Shared(torch.autograd.Function):  # type: ignore[misc]
    """A parameter that all groups have. Its gradient is the sum of theirs."""

    @staticmethod
    def forward(ctx: Any, together: Together, group: int, tensor: Tensor) -> Tensor:
        ctx.saved = together, group
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor]:
        together, group = ctx.saved
        return None, None, torch.stack(together.exchange(group, grad.clone())).sum(0)


class OfGroup(nn.Module):
    """What a net is in one of several groups, of one process each.

    alone is one of a process by itself. The passes of the groups come one after the other: each finds the
    running statistics of the one before.
    """

    def __init__(self, alone: nn.Module, together: Together, group: int) -> None:
        super().__init__()
        self.alone, self.together, self.group = alone, together, group
        self.rank, self.workers, self.groups = group, together.count, together.count

    def __deepcopy__(self, memo: dict[int, Any]) -> OfGroup:
        return OfGroup(copy.deepcopy(self.alone, memo), self.together, self.group)

    @property
    def module(self) -> nn.Module:
        return self.alone.module

    @property
    def vertices(self) -> Any:
        return self.alone.vertices

    @property
    def edges(self) -> Any:
        return self.alone.edges

    def forward(self, x: Any = None, samples: bool = False, **inputs: Any) -> Any:
        if samples:
            return torch.stack([self(one) for one in x])
        shared = {
            name: _Shared.apply(self.together, self.group, tensor) if tensor.requires_grad else tensor
            for name, tensor in self.alone.named_parameters()
        }
        made = None
        for group in range(self.together.count):
            if group == self.group:
                made = torch.func.functional_call(self.alone, shared, (x,), inputs)
            buffers = self.together.exchange(self.group, [buffer.clone() for buffer in self.buffers()])[group]
            for buffer, now in zip(self.buffers(), buffers):
                buffer.data.copy_(now)  # behind autograd, which has noted them for the pass
        return made

    def sum(self, values: Tensor, group: bool = False) -> Tensor:
        if group:
            return values
        made: Tensor = _Sum.apply(self.together, self.group, values)
        return made

    def rows(self, values: Tensor, vertices: Tensor) -> Tensor:
        return values[vertices]

    def gather(self, values: Tensor, type: str | None = None) -> Tensor:  # noqa: A002
        return values

    def sum_gradients(self, parameters: Iterable[Tensor]) -> None:
        for parameter in parameters:
            parameter.grad = self.sum(parameter.grad)
