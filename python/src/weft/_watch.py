"""What forward does beside computing its output: what it keeps from call to call, and what it draws.

A trace sees one call of a module. What a later call would do otherwise is found here, by calling it several
times, and is refused by the name of what changes and the line that changes it.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import linecache
import os
import random
import sys
import types
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree

from ._library import is_library, is_library_file, is_plain

# What every module has, of which parameters, buffers and layers are looked at as such.
_OWN = set(vars(nn.Module()))


class Same:
    """An object that is compared by its identity, and stays as long as this."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.value is other.value

    __hash__ = None  # type: ignore[assignment]


class Rows(Same):
    """A tensor, as long as nothing is written into it."""

    def __init__(self, tensor: Tensor) -> None:
        super().__init__(tensor)
        self.version = None if tensor.is_inference() else tensor._version

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and self.version == getattr(other, "version", None)

    __hash__ = None


def kept(obj: Any) -> dict[str, Any]:
    """What a call of a module, or of a function, may leave for the next one, by its name: attributes of all
    layers, or of what is called, and what their functions read of globals, modules, classes and closures."""
    found: dict[str, Any] = {}
    layers = dict(obj.named_modules()) if isinstance(obj, nn.Module) else {}
    seen = {id(layer): Same(layer) for layer in layers.values()}
    for path, layer in layers.items():
        for name, value in vars(layer).items():
            if name not in _OWN:
                found[f"{path}.{name}".removeprefix(".")] = state_of(value, dict(seen))
    if not layers and not isinstance(obj, types.FunctionType):
        found[name_of(obj)] = state_of(obj, {})
    outer: dict[str, list[Any]] = {}  # of a name, as several files may have it
    for part in (_of_classes(layers.values()), *map(_outer, _functions_of(obj, layers))):
        for name, value in part.items():
            if not any(value is other for other in outer.setdefault(name, [])):
                outer[name].append(value)
    return {name: [state_of(value, dict(seen)) for value in values] for name, values in outer.items()} | found


def name_of(obj: Any) -> str:
    """The name of something that is called, or of its class."""
    return str(getattr(obj, "__qualname__", type(obj).__name__))


def outer(names: Iterable[str], module: nn.Module) -> set[str]:
    """Those of the names that are of no layer's attribute: of which it is not noted whether a call reads
    them."""
    layers = module.named_modules()
    return set(names) - {f"{path}.{name}".removeprefix(".") for path, layer in layers for name in vars(layer)}


def state_of(value: Any, seen: dict[int, Same], deep: int = 8) -> Any:
    """A value that equals the later one if nothing in it has changed."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return type(value), value if value == value else repr(value)
    if id(value) in seen or deep == 0:
        return Same(value)
    seen[id(value)] = Same(value)
    inner = functools.partial(state_of, seen=seen, deep=deep - 1)
    if isinstance(value, Tensor):
        return Rows(value)
    if isinstance(value, np.ndarray):
        some = value.ravel()[:: 1 + value.size // _MANY]
        return (
            Same(value) if value.dtype == object else (value.shape, value.dtype, zlib.crc32(some.tobytes()))
        )
    drawn = generator_state(value)
    if drawn is not None:
        return Same(value), drawn
    if isinstance(value, Mapping):
        return (
            type(value),
            _length(value),
            [(inner(k), inner(v)) for k, v in itertools.islice(value.items(), _MANY)],
        )
    if isinstance(value, (set, frozenset)):
        return type(value), _length(value), sorted(map(repr, itertools.islice(value, _MANY)))
    if isinstance(value, (list, tuple)) or type(value).__name__ == "deque":
        return (
            type(value),
            _length(value),
            [inner(v) for v in itertools.islice(_own(value).__iter__(value), _MANY)],
        )
    if isinstance(value, functools.partial):
        return Same(value), inner(value.args), inner(value.keywords)
    if isinstance(value, types.FunctionType):
        return Same(value.__code__), [inner(v) for v in _held(value)]
    if isinstance(value, types.MethodType):
        return Same(value.__func__), inner(value.__self__)
    if type(value).__module__ == "itertools":
        return Same(value), repr(value)
    plain = is_plain(value) and not isinstance(value, (type, types.ModuleType))
    if not plain and not isinstance(value, nn.Module):
        return Same(value)
    return Same(value), [(name, inner(v)) for name, v in _attributes(value) if plain or name not in _OWN]


_MANY = 100_000  # of which more than these are not looked at one by one


def _own(value: Any) -> Any:
    """Python's own class of a container, which tells of entries also where the value's class refuses to, as
    Irrep of e3nn refuses its length."""
    return next(
        (base for base in (tuple, list, dict, set, frozenset) if isinstance(value, base)), type(value)
    )


def _length(value: Any) -> int:
    return int(_own(value).__len__(value))


def _attributes(value: Any) -> list[tuple[str, Any]]:
    slots = [
        name
        for kind in type(value).__mro__
        for name in (getattr(kind, "__slots__", None) or ())
        if isinstance(name, str)
    ]
    return [
        *getattr(value, "__dict__", {}).items(),
        *((name, getattr(value, name)) for name in slots if hasattr(value, name)),
    ]


def generator_state(generator: Any) -> Any:
    """The state of a generator of random numbers; None: it is none."""
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.Generator):
        return repr(generator.bit_generator.state)
    if isinstance(generator, np.random.RandomState):
        return repr(generator.get_state(legacy=False))
    return generator.get_state().numpy().tobytes() if isinstance(generator, torch.Generator) else None


def _held(function: types.FunctionType) -> list[Any]:
    """What a function holds: in its closure, in its defaults and as attributes."""
    cells = [cell.cell_contents for cell in function.__closure__ or () if _is_full(cell)]
    return [
        *cells,
        *(function.__defaults__ or ()),
        *(function.__kwdefaults__ or {}).values(),
        *vars(function).values(),
    ]


def _is_full(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _functions_of(obj: Any, layers: Mapping[str, nn.Module]) -> list[types.FunctionType]:
    """The functions of the user's own that a call may run: methods of the layers' classes, and what these
    read by a name."""
    left: list[Any] = [] if layers else [obj]
    for layer in layers.values():
        left += _methods(type(layer))
        left += [v for name, v in vars(layer).items() if name not in _OWN]
        left += [
            hook for name in ("_forward_hooks", "_forward_pre_hooks") for hook in vars(layer)[name].values()
        ]
    found, seen = list[types.FunctionType](), dict[int, Any]()
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, functools.partial):
            left += [value.func, *value.args, *value.keywords.values()]
        elif isinstance(value, types.MethodType):
            left += [value.__func__, value.__self__]
        elif isinstance(value, (staticmethod, classmethod, property, functools.cached_property)):
            names = ("__func__", "fget", "func")
            left += [getattr(value, name) for name in names if hasattr(value, name)]
        elif isinstance(value, types.FunctionType):
            if not is_library(value.__module__ or ""):
                found.append(value)
                left += [*_held(value), *_variables(value).values()]
        elif not isinstance(value, (type, types.ModuleType)):
            left += _methods(type(value))
    return found


def _methods(kind: type) -> list[Any]:
    """What the classes of the user's own have that an object is of, but for what makes the object."""
    own = [base for base in kind.__mro__ if not is_library(base.__module__)]
    return [value for base in own for name, value in vars(base).items() if name != "__init__"]


def _names(code: types.CodeType) -> set[str]:
    """The names that a function reads, and those that functions in it do."""
    return set(code.co_names).union(*(_names(c) for c in code.co_consts if isinstance(c, types.CodeType)))


def _of_classes(layers: Iterable[nn.Module]) -> dict[str, Any]:
    """What the layers' classes have that is neither a method nor of one object, by its name."""
    kinds = {kind for layer in layers for kind in type(layer).__mro__ if not is_library(kind.__module__)}
    every = [
        (f"{kind.__name__}.{name}", value)
        for kind in kinds
        for name, value in vars(kind).items()
        if not name.startswith("__")
    ]
    return {name: value for name, value in every if not _is_of_class(value)}


def _is_of_class(value: Any) -> bool:
    """Whether an attribute of a class is a method, or a property."""
    return callable(value) or isinstance(value, (staticmethod, classmethod, property))


def _outer(function: types.FunctionType) -> dict[str, Any]:
    """What a function reads and may change that is no attribute: variables of its file, of its closure, and
    of classes."""
    found = {name: value for name, value in _variables(function).items() if not isinstance(value, _CODE)}
    defaults = [
        name for name, p in inspect.signature(function).parameters.items() if p.default is not p.empty
    ]
    values = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    found |= {name: value for name, value in zip(defaults, values) if isinstance(value, (list, dict, set))}
    return found


# What has no state of its own: that of classes and modules is what their names stand for.
_CODE = (
    *(type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType),
    *(staticmethod, classmethod, property),
)


def _variables(function: types.FunctionType) -> dict[str, Any]:
    """What a function may read by its names: variables of its file, of its closure, and of modules and
    classes of the user's own."""
    code, file = function.__code__, function.__globals__
    names = _names(code) | set(code.co_freevars)
    cells = zip(code.co_freevars, function.__closure__ or ())
    closure = {name: cell.cell_contents for name, cell in cells if _is_full(cell)}
    imported = {
        name: sys.modules[name] for name in names & sys.modules.keys() - file.keys()
    }  # in the function
    left: list[tuple[str, Mapping[str, Any]]] = [("", file | imported | closure)]
    found, seen = dict[str, Any](), set[int]()
    while left:
        prefix, scope = left.pop()
        for name in names & scope.keys():
            found[prefix + name] = value = scope[name]
            if not isinstance(value, (type, types.ModuleType)) or id(value) in seen:
                continue
            seen.add(id(value))
            if not is_library(value.__module__ if isinstance(value, type) else value.__name__):
                left.append((f"{prefix}{name}.", vars(value)))
    return found


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> set[str]:
    """The names of what is not as it was."""
    return {
        name
        for name in before.keys() | after.keys()
        if name not in before or name not in after or before[name] != after[name]
    }


def without_tensors(state: Any) -> Any:
    """A state in which any tensor equals any other: which of them a call reads, TensorsRead tells."""
    if isinstance(state, Same) and isinstance(state.value, Tensor):
        return None
    if isinstance(state, dict):
        return {name: without_tensors(value) for name, value in state.items()}
    return type(state)(map(without_tensors, state)) if type(state) in (list, tuple) else state


class TensorsRead(TorchFunctionMode):  # type: ignore[misc]
    """Notes the tensors whose numbers functions of PyTorch are given."""

    def __init__(self) -> None:
        super().__init__()
        self.ids = set[int]()

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if (function.__self__.__name__ if name == "__get__" else name) not in _SHAPES:
            self.ids.update(map(id, _pytree.tree_leaves((args, kwargs))))
        return function(*args, **kwargs)

    def changed(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> set[str]:
        """The names of what is not as it was before the call, of which it has read a tensor."""
        return {
            name for name in changed(before, after) if not self.ids.isdisjoint(_tensors(before.get(name)))
        }


# What tells nothing of a tensor's numbers.
_SHAPES = frozenset(
    "shape size dim ndim numel stride dtype device layout is_leaf requires_grad grad_fn is_floating_point "
    "__len__".split()
)


def _tensors(state: Any) -> Iterator[int]:
    """The ids of the tensors in a state, which keeps them."""
    if isinstance(state, Same) and isinstance(state.value, Tensor):
        yield id(state.value)
    elif isinstance(state, (list, tuple)):
        for item in state:
            yield from _tensors(item)


@contextlib.contextmanager
def reads(module: nn.Module, into: set[str]) -> Iterator[None]:
    """Notes the attributes of layers that are read in a call of the module before they are set in it."""
    paths = {id(layer): path for path, layer in module.named_modules()}
    first: set[tuple[int, str]] = set()
    set_by = nn.Module.__setattr__

    def read(layer: Any, name: str) -> Any:
        if name not in _OWN and (id(layer), name) not in first:
            first.add((id(layer), name))
            if id(layer) in paths:
                into.add(f"{paths[id(layer)]}.{name}".removeprefix("."))
        return object.__getattribute__(layer, name)

    def write(layer: Any, name: str, value: Any) -> None:
        first.add((id(layer), name))
        set_by(layer, name, value)

    nn.Module.__getattribute__, nn.Module.__setattr__ = read, write
    try:
        yield
    finally:
        nn.Module.__setattr__ = set_by
        del nn.Module.__getattribute__


@contextlib.contextmanager
def generators() -> Iterator[None]:
    """Leaves Python's, NumPy's and PyTorch's generators of random numbers as they were."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])


def seed(number: int) -> None:
    """Begins Python's, NumPy's and PyTorch's generators anew, and those of no card."""
    random.seed(number)
    np.random.seed(number)
    torch.default_generator.manual_seed(number % 1000)


def drawn() -> Any:
    """The state of Python's and of NumPy's generators."""
    return random.getstate(), repr(np.random.get_state(legacy=False))


def line_that_changes(call: Callable[[], Any], look: Callable[[], Any]) -> str:
    """The line of source of the user's own after which something is not as it was, as file:line: text."""
    state, found, last = look(), list[str](), dict[int, int]()

    def tracer(frame: types.FrameType, event: str, _: Any) -> Any:
        if is_library_file(frame.f_code.co_filename) or found:
            return None
        if event == "return" or event == "line":
            at = last.get(id(frame))
            if at is not None and look() != state:
                file = frame.f_code.co_filename
                found.append(f"{os.path.basename(file)}:{at}: {linecache.getline(file, at).strip()}")
            last[id(frame)] = frame.f_lineno
        else:
            last[id(frame)] = frame.f_lineno
        return tracer

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        with contextlib.suppress(Exception):  # what is looked for came before
            call()
    finally:
        sys.settrace(before)
    return found[0] if found else ""
