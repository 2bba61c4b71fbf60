"""The graphs that a net has been called with: each is divided once, and kept as long as there is room."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from torch import nn

from . import _calls, _program
from ._divided import Divided, Shared, settings_of, words_of
from ._errors import Refused
from ._forward import Call
from ._small import Sizes
from ._structure import Structure

_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}


class Place(NamedTuple):
    """Which one a process is among those that call a net together, in which group of them."""

    process: int
    processes: int
    group: int
    groups: int


class Graphs:
    """Divided graphs by their fingerprints, the least recently used first."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings_of(settings)
        #: The name of the tensor of a call by which vertices are divided; "": there is none.
        self.by = settings.get("partition_by") or ""
        if not isinstance(self.by, str):
            raise Refused(f"partition_by: is {self.by!r}: give the name of a tensor of the call, as 'pos'")
        for name in ("partition", "balance"):
            if self.by and self.settings.get(name, "auto") != "auto":
                raise Refused(
                    f"partition_by: and {name}={self.settings[name]!r} are both given: leave one out"
                )
        self.room = bytes_of(settings.get("graph_cache", "64MiB"))
        axes = (axis.partition("=") for axis in str(_program.axes(settings.get("parallel"))).split(","))
        counts = {name: int(count) for name, _, count in axes if count.isdecimal()}
        self.stages = counts.get("pipeline", 1)
        self.sizes = Sizes()
        self.kept: OrderedDict[Any, Divided] = OrderedDict()
        self.bytes = 0  # of those that are kept
        self.shared: Shared | None = None
        self.parameters = 0  # bytes, of which each graph's model has a copy
        self.place: Place | None = None  # of a net without a graph
        self.last: Divided | None = None  # the graph of the last call that was computed

    def size_of(self, divided: Divided) -> int:
        """About how many bytes a divided graph takes while it waits for its next call."""
        assert isinstance(divided.graph, Structure)
        return divided.graph.bytes + 2 * self.parameters

    def begin(self, module: nn.Module) -> None:
        """Refuses settings that make no sense, and joins the processes that call the net."""
        program = _calls.program()
        words, call = words_of(self.settings), f"weft.compile of {type(module).__name__}"
        answer = program.ask("join", version=_program.PROTOCOL, arguments=words, call=call)
        self.place = Place(*(answer.get(name, 0) for name in Place._fields))
        if self.place.processes > 1:
            program.together.set()

    def check_axes(self) -> None:
        """Refuses axes along which no graph of a call is divided."""
        if self.stages > 1:
            raise Refused(
                "parallel: a pipeline is of one graph: compile the module with it, or take the graph or the "
                "tensor axis"
            )

    @contextlib.contextmanager
    def in_common(self) -> Iterator[None]:
        """Drops all graphs if a call of its block fails: other processes may have kept others."""
        try:
            yield
        except Exception:
            if _calls.program().together.is_set():
                self.kept.clear()
                self.bytes = 0
            raise

    def divided(self, module: nn.Module, call: Call) -> Divided:
        """The graph of a call, divided. Those that were used least recently make room for it."""
        self.check_axes()
        key = call.structure.fingerprint(), call.constants
        found = self.kept.pop(key, None)
        if found is None:
            if self.shared is None:
                self.shared = Shared(module)
                self.parameters = sum(tensor.nbytes for tensor in module.parameters())
            own = call.structure.copied()  # the caller may write to its tensors
            found = Divided(module, own, self.settings, None, call.constants, self.shared)
            self.bytes += self.size_of(found)
        self.kept[key] = found
        while self.bytes > self.room and len(self.kept) > 1:
            _, oldest = self.kept.popitem(last=False)
            self.bytes -= self.size_of(oldest)
        return found


def bytes_of(size: Any) -> int:
    """A number of bytes, or one with a unit, as "64MiB".

    Raises:
        Refused: it is neither.
    """
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    if isinstance(size, str):
        unit = next((unit for unit in _UNITS if size.endswith(unit)), "")
        number = size.removesuffix(unit).strip()
        if unit and number.replace(".", "", 1).isdecimal():
            return int(float(number) * _UNITS[unit])
    raise Refused(f'graph_cache: is {size!r}: give a number of bytes, or one as "64MiB"')
