"""Fields of vertices and edges, as a DGLGraph has them: by their names, and by type where there are
several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from types import SimpleNamespace
from typing import Any


def copies(frames: Mapping[Any, Fields]) -> dict[Any, Fields]:
    return {key: type(frame)(frame) for key, frame in frames.items()}


def fields_of(frames: Mapping[Any, Fields], types: list[Any]) -> Any:
    return frames[types[0]] if len(types) == 1 else _ByType({name: frames[name] for name in types})


class _ByType(MutableMapping[str, Any]):
    """Fields of several types: each a dict by type."""

    def __init__(self, frames: Mapping[Any, Fields]) -> None:
        self.frames = frames

    def __getitem__(self, field: str) -> Any:
        found = {name: frame[field] for name, frame in self.frames.items() if field in frame}
        return found or next(iter(self.frames.values()))[field]

    def __setitem__(self, field: str, values: Mapping[Any, Any]) -> None:
        for name, value in values.items():
            self.frames[name][field] = value

    def __delitem__(self, field: str) -> None:
        for frame in self.frames.values():
            frame.pop(field, None)

    def __contains__(self, field: object) -> bool:
        return any(field in frame for frame in self.frames.values())

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(field for frame in self.frames.values() for field in frame))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class View:
    """graph.nodes, graph.edges: [type].data has the fields of a type, and a call gives the numbers or the
    ends."""

    def __init__(self, fields: Callable[[Any], Fields], called: Callable[..., Any]) -> None:
        self.fields, self.called = fields, called

    def __getitem__(self, name: Any) -> Any:
        return SimpleNamespace(data=self.fields(name))

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.called(*args, **named)


class Fields(dict[str, Any]):
    """Of vertices or edges, by their names."""

    def __missing__(self, field: str) -> Any:
        raise NotImplementedError(
            f"the field {field!r} of the graph is set outside of forward: compute it in forward, or "
            f"{self.advice(field)}"
        )

    def advice(self, field: str) -> str:
        """How a field is given."""
        return "make it columns of the features x"


class OfEdges(Fields):
    def advice(self, field: str) -> str:
        return (
            f"compile weft.Graph.of(graph, edge_attr=graph.edata[{field!r}]), and read graph.edata['feat'], "
            "or an argument efeat"
        )
