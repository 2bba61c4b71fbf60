"""Copies of modules, whose functions read the copy and not the module that was copied."""

from __future__ import annotations

import contextlib
import copy
import functools
import operator
import types
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from ._errors import Refused
from ._library import is_plain
from ._watch import generators


def copied(original: Any, memo: dict[int, Any] | None = None) -> Any:
    """A deep copy, which functions that a module holds, as hooks and replaced methods, have in their
    closures.

    Results of a call that a module holds, as attention, are copied without what they were computed from.
    Generators of random numbers stay as they are.

    Args:
        original: a module, or an object that has some.
        memo: what stands for objects by their id, as copy.deepcopy takes it.

    Raises:
        Refused: a part has no copy.
    """
    memo = {} if memo is None else memo
    with generators(), _results():
        try:
            made = copy.deepcopy(original, memo)
        except (TypeError, RuntimeError) as why:  # of what no copy can be made
            text = " ".join(str(why).split())[:200] or type(why).__name__
            raise Refused(f"model: the module cannot be copied: {text}") from None
        return _with_functions(made, memo)


@contextlib.contextmanager
def _results() -> Iterator[None]:
    """Copies tensors that are results, which PyTorch refuses to copy."""
    of_leaves = torch.Tensor.__deepcopy__

    def copied(tensor: torch.Tensor, memo: dict[int, Any]) -> torch.Tensor:
        if tensor.is_leaf or id(tensor) in memo:
            return of_leaves(tensor, memo)
        made = memo[id(tensor)] = tensor.detach().clone().requires_grad_()
        return made

    torch.Tensor.__deepcopy__ = copied
    try:
        yield
    finally:
        torch.Tensor.__deepcopy__ = of_leaves


def _with_functions(made: Any, memo: dict[int, Any]) -> Any:
    """A copy, with functions that have what a memo of copy.deepcopy says in their closures."""
    for part in (*memo.values(), *made.modules(), *made.parameters(), *made.buffers()):
        memo.setdefault(id(part), part)  # what a function of the copy holds already is no other copy
    functions = _Functions(memo)
    for layer in made.modules():
        for name, value in list(vars(layer).items()):
            vars(layer)[name] = functions.replacement(value)
    return made


class _Functions:
    """Functions in place of others, whose closures and defaults hold what a memo of copy.deepcopy has."""

    def __init__(self, memo: dict[int, Any]) -> None:
        self.memo, self.known, self.kept = memo, dict[int, Any](), list[Any]()

    def replacement(self, value: Any) -> Any:
        """A value whose functions are replaced: dicts, lists and objects in place."""
        if not isinstance(value, _HOLDERS) and not _is_object(value):
            return value
        if id(value) not in self.known:
            self.known[id(value)] = value
            self.kept.append(value)  # so that no other object gets its id
            self.known[id(value)] = self.replaced(value)
        return self.known[id(value)]

    def replaced(self, value: Any) -> Any:
        if isinstance(value, types.FunctionType):
            return self.function(value)
        if isinstance(value, types.MethodType):
            function = self.replacement(value.__func__)
            return value if function is value.__func__ else types.MethodType(function, value.__self__)
        if isinstance(value, functools.partial):
            parts = (value.func, *value.args), value.keywords
            first, named = (self.replacement(v) for v in parts)
            return functools.partial(*first, **named) if first is not parts[0] else value
        if isinstance(value, tuple):
            made = [self.replacement(v) for v in value]
            if all(a is b for a, b in zip(made, value)):
                return value
            return type(value)(*made) if hasattr(value, "_fields") else tuple(made)
        items = value if isinstance(value, (dict, list)) else vars(value)
        for key, item in list(items.items() if isinstance(items, dict) else enumerate(items)):
            items[key] = self.replacement(item)
        return value

    def function(self, function: types.FunctionType) -> types.FunctionType:
        cells = function.__closure__ or ()
        if not cells and not function.__defaults__ and not function.__kwdefaults__:
            return function
        made = types.FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            None,
            tuple(types.CellType() for _ in cells),
        )
        self.known[id(function)] = made
        same = True
        for cell, old in zip(made.__closure__ or (), cells):
            try:
                content = old.cell_contents
            except ValueError:  # it is empty yet
                continue
            cell.cell_contents = self.copy(content)
            same = same and cell.cell_contents is content
        defaults, named = function.__defaults__ or (), function.__kwdefaults__ or {}
        made.__defaults__ = tuple(map(self.copy, defaults)) or None
        made.__kwdefaults__ = {name: self.copy(value) for name, value in named.items()}
        same = same and all(map(operator.is_, made.__defaults__ or (), defaults))
        if same and all(value is named[name] for name, value in made.__kwdefaults__.items()):
            return function
        for name in ("__qualname__", "__module__", "__doc__", "__annotations__"):
            setattr(made, name, getattr(function, name))
        made.__dict__.update(function.__dict__)
        return made

    def copy(self, content: Any) -> Any:
        """What a closure holds, of the copy."""
        try:
            return self.replacement(copy.deepcopy(content, self.memo))
        except (TypeError, RuntimeError):  # as of a lock, which the copy shares
            return content


_HOLDERS = (types.FunctionType, types.MethodType, functools.partial, tuple, list, dict)


def _is_object(value: Any) -> bool:
    """Whether a value is an object of a class of the user's own, which is no module."""
    other = isinstance(value, (type, types.ModuleType, nn.Module, torch.Tensor))
    return hasattr(value, "__dict__") and is_plain(value) and not other
