"""What the program is given for a call of Python: the graph, and a flag for each keyword. `train`, `sweep`
and `plan` begin with these."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import _module, _program, _weights
from ._arrays import array
from ._errors import Refused
from ._graph import Data, Graph, argument, graph_of
from ._graph import arguments as graph_arguments
from ._run import Run
from ._scratch import Scratch

# Flags of the command for which Python has other means.
TAKEN = ("help", "out", "resume", "json", "follow", "show_plan")


def arguments_of(
    command: str,
    data: Data,
    settings: Mapping[str, Any],
    scratch: Scratch,
    out: Any = None,
    resumed: Any = None,
    progress: bool = True,
) -> tuple[Graph | None, list[str], Any]:
    """The graph in memory, if it is one, the command's arguments, and the module that is trained, if it is
    one."""
    arguments, graph = [command], None
    continues = resumed is not None and resumed != "auto"
    if data is not None or not (continues or command == "plan"):
        graph = graph_of(data)
        if graph is not None and graph.undivided and settings.get("task") == "link":
            raise Refused(
                "edge_label_index: is that of one part of a split: give the three, as weft.train([train, "
                'val, test], task="link")'
            )
        arguments += graph_arguments(data, graph)
        scratch.kept.append(graph)
        settings = settings if continues else with_edge_labels(graph, settings)
    source = arguments[1:]
    settings, module = _module.in_place(settings, source, scratch, progress=progress)
    if out is not None and not (continues and os.path.realpath(out) == os.path.realpath(resumed)):
        arguments.append(_program.flag("out", out))
    if resumed is not None:
        arguments.append(_program.flag("resume", resumed))
    for name, value in settings.items():
        # The weights that a run began with are in its checkpoint.
        if name == "offload":
            value = _program.offload(value, settings.get("device"))
        if value is not None and not (continues and name == "init"):
            arguments += _program.flags(name, value_of(name, value, scratch))
    return graph, arguments, module


def with_edge_labels(graph: Graph | None, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings, with edge_label where labels of edges are learned. That is so where the task is edge, or
    where none is given and a graph in memory has no other labels."""
    if (
        graph is not None
        and graph.learns_edges
        and all(settings.get(name) is None for name in ("task", "config"))
    ):
        settings = {**settings, "task": "edge"}
    if graph is None or settings.get("task") != "edge" or settings.get("edge_label") is not None:
        return settings
    if graph.labelled is None and graph.labels_parallel:
        raise Refused(
            "edge_label_index: names an edge twice, or one that edge_index has several times, so that it is "
            "not known which of these has the label: give labels of all edges, in the order of edge_index, "
            "as edge_label alone, with masks"
        )
    if graph.labelled is None and graph.undivided:
        raise Refused(
            'edge_label_index: has edges that edge_index lacks, and with task="edge" all edges pass '
            "messages: give the labels of edge_index as edge_label alone"
        )
    if graph.labelled is None and graph.of_links:
        raise Refused(
            'task="edge": the edges to predict are those of a split of links, which pass no messages, as '
            'RandomLinkSplit leaves them: learn them with task="link", or give labels of edge_index as '
            "edge_label, with masks"
        )
    if graph.labelled is None:
        raise Refused('task="edge": the edges of the graph have no labels: give them as edge_y')
    return {**settings, "edge_label": "edge_y"}


def value_of(name: str, value: Any, scratch: Scratch) -> Any:
    """What the program is given for the value of a keyword."""
    if name in _program.REPEATED:
        return value
    if name == "validate":
        graph = graph_of(value)
        scratch.kept.append(graph)
        return argument(value, graph)
    if name == "init":
        if isinstance(value, Run):
            return value.directory / "model.safetensors"
        if isinstance(value, Mapping):
            path = scratch.path / "init.safetensors"
            with scratch.writing(name):
                _weights.write(path, value)
            return path
    if name == "parallel":
        return _program.axes(value)
    if name == "class_weights" and not isinstance(value, (str, os.PathLike)):
        path = scratch.path / "class_weights.txt"
        weights = array(value, name)
        if weights.ndim != 1 or weights.dtype.kind not in "biuf":
            raise Refused("class_weights: give a number for each class in their order, or balanced")
        with scratch.writing(name):
            path.write_text("".join(f"{float(weight)!r}\n" for weight in weights))
        return path
    if name == "link_relation" and not isinstance(value, str):
        relations = list(value) if isinstance(value, Iterable) else []
        if all(isinstance(part, str) for part in relations):
            relations = [relations]
        if not all(
            isinstance(r, Sequence) and r and all(isinstance(part, str) for part in r) for r in relations
        ):
            raise Refused(
                f"link_relation: {value!r} is no relation: give (source type, name, target type), or a list "
                "of them"
            )
        return ";".join(",".join(relation) for relation in relations)
    if isinstance(value, datetime.timedelta):
        return f"{value.total_seconds()}s"
    if name == "link_split" and isinstance(value, Sequence) and not isinstance(value, str):
        return "/".join(map(str, value))
    return _program.listed(value)
