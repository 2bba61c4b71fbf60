"""The graphs that a net has been called with: each is divided once, and kept as long as there is room."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from torch import nn

from . import _program
from ._divided import Divided, Shared, check, settings_of, words_of
from ._errors import Refused
from ._forward import Call
from ._small import Sizes
from ._structure import Structure

_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}

#: Settings that a graph of fewer vertices than parts is without.
_DIVIDE = ("parallel", "partitions", "offload")


class Graphs:
    """Divided graphs by their fingerprints, the least recently used first."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self.settings = settings_of({n: value for n, value in settings.items() if n != "graph_cache"})
        self.room = bytes_of(settings.get("graph_cache", "64MiB"))
        axes = (axis.partition("=") for axis in str(_program.axes(settings.get("parallel"))).split(","))
        counts = {name: int(count) for name, _, count in axes if count.isdecimal()}
        self.stages, partitions = counts.get("pipeline", 1), str(settings.get("partitions"))
        #: Into how many parts a graph is divided.
        self.parts = max(counts.get("graph", 1), int(partitions) if partitions.isdecimal() else 1)
        self.sizes = Sizes()
        self.kept: OrderedDict[Any, Divided] = OrderedDict()
        self.bytes = 0  # of those that are kept
        self.shared: Shared | None = None
        self.parameters = 0  # bytes, of which each graph's model has a copy

    @property
    def last(self) -> Divided | None:
        """The graph of the last call."""
        return next(reversed(self.kept.values()), None)

    def size_of(self, divided: Divided) -> int:
        """About how many bytes a divided graph takes while it waits for its next call."""
        assert isinstance(divided.graph, Structure)
        return divided.graph.bytes + 2 * self.parameters

    def check(self) -> None:
        """Refuses settings that make no sense."""
        check(words_of(self.settings))
        if self.stages > 1:
            raise Refused(
                "parallel: a pipeline is of one graph: compile the module with it, or take the graph or the "
                "tensor axis"
            )

    def divided(self, module: nn.Module, call: Call) -> Divided:
        """The graph of a call, divided. Those that were used least recently make room for it."""
        key = call.structure.fingerprint(), call.constants
        found = self.kept.pop(key, None)
        if found is None:
            if self.shared is None:
                self.shared = Shared(module)
                self.parameters = sum(tensor.nbytes for tensor in module.parameters())
            own = call.structure.copied()  # the caller may write to its tensors
            vertices, settings = sum(own.schema.vertices.values()), self.settings
            if vertices < self.parts:  # one worker has them all
                settings = {name: value for name, value in settings.items() if name not in _DIVIDE}
            found = Divided(module, own, settings, None, call.constants, self.shared)
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
