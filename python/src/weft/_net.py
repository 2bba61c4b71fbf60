"""Modules on divided graphs as modules of PyTorch: the axes are an operator, and the loop is the caller's."""

from __future__ import annotations

import contextlib
import copy
import inspect
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_unflatten

from . import _calls, _module, _program
from ._edges import AS_IT_IS, Edges, Reads
from ._errors import Refused
from ._graph import Data, argument, graph_of
from ._model import Model, Type, arguments, constants_of, layers_of, shapes_of, traced
from ._pass import NOT_EXPORTED, Input, passed
from ._scratch import Scratch
from ._trace import Schema, tables_of


def net_of(module: nn.Module, data: Data, settings: Mapping[str, Any]) -> Net:
    """The net of a module on a graph."""
    if isinstance(module, Net) or not isinstance(module, nn.Module):
        raise Refused(f"module: {type(module).__name__} is no module to compile: give a torch.nn.Module")
    net = Net(module, _Divided(module, data, settings))
    if net._divided.is_known(module):
        net._divided.model(module, {}).tensors_of(net)  # which refuses other numbers than float32
    return net


class _Divided:
    """A module and its copies on a graph that is divided.

    There is a model for each set of layers that are in evaluation while the module trains, and for what calls
    give of features and of edges that the graph lacks, or ask for gradients of.
    """

    def __init__(self, module: nn.Module, data: Data, settings: Mapping[str, Any]) -> None:
        self.graph = graph_of(data)
        self.argument = argument(data, self.graph)
        self.schema = Schema.of(_module.counts_of({}, self.argument))
        self.layers, self.constants = layers_of(module), constants_of(module)
        self.settings = {name: value for name, value in settings.items() if value is not None}
        if "offload" in self.settings:
            self.settings["offload"] = _program.offload(settings["offload"], settings.get("device")) or ""
        self.number: tuple[_calls.Program | None, int] = None, 0
        self.edges = Edges(self.graph, self.schema)
        self.models: dict[tuple[frozenset[str], frozenset[str], Reads], Model] = {}
        self.columns: dict[str, int] = {}  # of features that calls give, of vertex types without

    def number_in(self, program: _calls.Program) -> int:
        """The number of the divided graph, which all models have in common."""
        if self.number[0] is not program:
            self.number = program, next(program.numbers)
        return self.number[1]

    def is_known(self, module: nn.Module) -> bool:
        """Whether the graph has what the module needs: else calls give it."""
        tables = tables_of(module, self.schema).values()
        if not all(columns or name in tables for name, columns in self.schema.features.items()):
            return False
        there = {"edge_weight": False, "edge_attr": False}
        for relation in self.schema.relations.values():
            there["edge_weight"] |= relation.weighted
            there["edge_attr"] |= relation.features > 0
        needed = inspect.signature(module.forward).parameters.values()
        return not any(not there.get(p.name, True) and p.default is p.empty for p in needed)

    def model(self, module: nn.Module, new: Mapping[str, int], reads: Reads = AS_IT_IS) -> Model:
        """The model for the layers of a module that are in evaluation.

        new: the columns of features that a call gives of vertex types without. reads: what it reads of edges.
        """
        if layers_of(module) != self.layers:
            raise Refused(
                "module: its layers, or hooks on them, have changed since it was compiled: compile it again; "
                "a hook on the compiled module itself is called"
            )
        if changed := [name for name, of in constants_of(module).items() if self.constants.get(name) != of]:
            raise Refused(
                f"module: {changed[0]} has changed since it was compiled, and its numbers were read then: "
                "compile it again"
            )
        differ = frozenset(
            path for path, layer in module.named_modules() if layer.training != module.training
        )
        if differ and not module.training:
            raise Refused(
                f"module: {min(differ)} is in training, and the module in evaluation: call net.train(), and "
                "eval() of the layers that do not train"
            )
        key = differ, frozenset(new), reads
        found = self.models.get(key)
        if found is None:
            with _module.as_written():
                found = self.models[key] = self.opened(module, differ, new, reads)
            self.columns.update(new)
        return found

    def opened(
        self, module: nn.Module, frozen: frozenset[str], new: Mapping[str, int], reads: Reads
    ) -> Model:
        schema = reads.schema(replace(self.schema, features={**self.schema.features, **new}))
        if not any(schema.features.values()) and not tables_of(module, schema):
            raise Refused("x: the graph has no features: call net(x)")
        numbers = {name: number for number, name in enumerate(schema.features)}
        lacking = [
            {"of": "vertices", "type": numbers[name], "features": columns} for name, columns in new.items()
        ]
        lacking += [{"of": "edges", **asdict(one)} for one in reads.lacking]
        made = traced(module, schema, frozen)
        program = reads.marked(made.program)
        number = self.number_in(_calls.program())
        return Model(module, program, made.outputs, self.words(), made.learned, lacking, number)

    def words(self) -> list[str]:
        """Those of the command line that open the graph."""
        return [
            *(_program.flag(name, _program.axes(of)) for name, of in self.settings.items()),
            self.argument,
        ]

    # -- features that calls give

    def by_type(self, x: Any) -> dict[str, Any]:
        """Features by vertex type."""
        names = list(self.schema.features)
        if x is None:
            return {}
        if not isinstance(x, Mapping):
            if len(names) > 1:
                raise Refused(
                    f"x: is one {type(x).__name__}, and the graph has several vertex types: give a dict by "
                    f"{', '.join(names)}"
                )
            return {names[0]: x}
        if names == [""]:
            raise Refused("x: is a dict, and the graph has one vertex type: give a tensor")
        if other := [name for name in x if name not in names]:
            raise Refused(f"x: there is no vertex type {other[0]!r}: there are {', '.join(names)}")
        return dict(x)

    def checked(self, given: Mapping[str, Any]) -> dict[str, int]:
        """The columns of those of vertex types without."""
        for name, x in given.items():
            vertices = self.schema.vertices[name]
            columns = self.schema.features[name] or self.columns.get(name)
            fits = isinstance(x, Tensor) and x.is_floating_point() and x.dim() == 2 and len(x) == vertices
            fits = fits and not x.is_meta and x.layout == torch.strided
            if not fits or x.shape[1] != columns and (columns or not x.shape[1]):
                raise Refused(
                    f"{self.called(name)}: is {_kind_of(x)}: give floats of {vertices} vertices × "
                    f"{columns or 'their'} features"
                    + ("" if self.schema.features[name] or not columns else ", as the first call did")
                )

        return {name: x.shape[1] for name, x in given.items() if not self.schema.features[name]}

    def each_sample(self, given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The features of each sample, by vertex type."""
        for name, x in given.items():
            if not isinstance(x, Tensor) or x.dim() != 3 or len(x) == 0:
                raise Refused(
                    f"samples: {self.called(name)} is S × V × F, a matrix of features for each sample, and "
                    f"{_kind_of(x)} was given"
                )
        if len({len(x) for x in given.values()}) != 1:
            counts = ", ".join(f"{len(x)} of {self.called(name)}" for name, x in given.items())
            raise Refused(f"samples: there are {counts or 'none'}: give as many of each vertex type")
        for rows in zip(*given.values()):
            yield dict(zip(given, rows))

    def called(self, name: str) -> str:
        return f"x[{name!r}]" if len(self.schema.features) > 1 else "x"


def planned(
    module: nn.Module, data: Data, passes: int, gradients: str | None, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """What :func:`weft.plan` says of a loop around a module, or of a net with its settings."""
    if gradients not in (None, "x"):
        raise Refused(f"gradients: {gradients!r} is none: give 'x', for those of features that are given")
    if not isinstance(passes, int) or passes < 1:
        raise Refused(f"passes: {passes!r} is no number of passes that live together: give 1 or more")
    if isinstance(module, Net):
        module, settings = module.module, module._divided.settings | dict(settings)
    of, program, scratch = _Divided(module, data, settings), _calls.program(), Scratch()
    try:
        with _module.as_written():
            made = traced(module, of.schema, frozenset())
            words = arguments(module, made.program, of.words(), scratch)
            loop = {"passes": passes, "features": gradients is not None, "gradients": gradients is not None}
            answer = program.ask("plan", "planning", version=_calls.VERSION, arguments=words, loop=loop)
    finally:
        scratch.close()
    found: dict[str, Any] = answer["planned"]
    types = [Type(**one) for one in answer["types"]]
    outputs = sum(map(math.prod, shapes_of(made.outputs, types)))
    read = {of["name"] for of in made.program["parameters"]}
    state = {name: of for name, of in module.named_parameters(remove_duplicate=False) if name in read}
    values = sum(of.numel() for of in state.values())
    buffers = sum(
        of.numel()
        for name, of in module.named_buffers(remove_duplicate=False)
        if name in read and of.is_floating_point()
    )
    pieces = [outputs] * (passes + 1)  # with the gradient of one
    if gradients:
        pieces += [one.vertices * one.features for one in types if one.features for _ in range(2)]
    parameters = {_calls.bytes_of(values + buffers), _calls.bytes_of(values)}  # of a size the same memory
    return found | {"shared_bytes": sum(map(_calls.bytes_of, pieces)) + sum(parameters)}


def _kind_of(x: Any) -> str:
    if not isinstance(x, Tensor):
        return type(x).__name__
    return f"{x.dtype} {tuple(x.shape)} on {x.device}, {x.layout}"


class Net(nn.Module):  # type: ignore[misc]
    """A module on a divided graph, which :func:`weft.compile` makes.

    Its parameters, buffers and layers are those of ``module``.
    """

    def __init__(self, module: nn.Module, divided: _Divided) -> None:
        self.__dict__["module"] = module
        self.__dict__["_divided"] = divided
        super().__init__()
        for name in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            self.__dict__[name] = module.__dict__[name]

    @property
    def training(self) -> bool:
        return bool(self.module.training)

    @training.setter
    def training(self, mode: bool) -> None:
        if "_modules" in self.__dict__ and self._modules is self.module._modules:
            self.module.training = mode  # not where nn.Module makes this object

    def state_dict(self, *args: Any, **keywords: Any) -> Any:
        return self.module.state_dict(*args, **keywords)

    def load_state_dict(self, *args: Any, **keywords: Any) -> Any:
        return self.module.load_state_dict(*args, **keywords)

    def __deepcopy__(self, memo: dict[int, Any]) -> Net:
        return Net(copy.deepcopy(self.module, memo), self._divided)

    def __reduce_ex__(self, _: Any) -> Any:
        raise TypeError(
            "a compiled module belongs to its process, and is not pickled: pickle its state_dict()"
        )

    def __prepare_scriptable__(self) -> Any:
        raise Refused(f"torch.jit.script: {NOT_EXPORTED}")

    def _replicate_for_data_parallel(self) -> Any:
        raise Refused(
            "DataParallel: a compiled module has no replicas: its workers are those of parallel, as graph=2"
        )

    def extra_repr(self) -> str:
        return f"on {self._divided.graph or self._divided.argument}"

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(
        self,
        x: Tensor | Mapping[str, Tensor] | None = None,
        *others: Any,
        edges: Any = None,
        edge_weight: Any = None,
        edge_attr: Any = None,
        rows: Tensor | None = None,
        samples: bool = False,
    ) -> Any:
        """What the module returns for the graph.

        Args:
            x: V × F floats in place of the graph's features, with ``samples`` S × V × F. Of several vertex
                types a dict by type: those that it lacks have the graph's.
            edges: E booleans, in the order of the graph's edges: the pass has those edges alone, as if the
                graph had no others. Self loops that the module adds stay.
            edge_weight: E floats in place of the graph's weights, in that order.
            edge_attr: E × D floats in place of the graph's features of edges, in that order. Of several
                relations these three are dicts by (source type, name, target type).
            rows: numbers of vertices, or V booleans: outputs have the rows of these alone, as
                ``net()[rows]``. In evaluation without gradients no others are computed but those that they
                depend on, along the graph axis of a graph's own features and edges. The graph has one vertex
                type.
            samples: each of the S has a pass of its own, one after the other; the outputs are stacked.

        Raises:
            TypeError: there are others than x by their place, as an ``edge_index``.
            Refused: an input or a parameter is not what it was made for.
            Failed: the work failed.
        """
        if others:
            raise TypeError(
                "a compiled module is called with x alone, as net() or net(x): it has its graph. edges=mask leaves "
                "out edges; another graph is compiled by itself"
            )
        of, of_edges = self._divided, self._divided.edges
        given = of.by_type(x)
        each = list(of.each_sample(given)) if samples else [given]
        new = of.checked(each[0])  # samples are of one shape
        edge_inputs = of_edges.inputs(edges=edges, edge_weight=edge_weight, edge_attr=edge_attr)
        model = of.model(self.module, new, of_edges.reads(edge_inputs))
        of_edges.check_read(model.traced, edge_inputs)
        numbers = {name: number for number, name in enumerate(of.schema.features)}
        state, made = model.tensors_of(self), []
        for one in each:
            inputs = [Input("features", numbers[name], x) for name, x in one.items()]
            made.append(passed(model, state, self.training, [*inputs, *edge_inputs], rows))
        return tree_unflatten(list(map(torch.stack, zip(*made))) if samples else made[0], model.outputs.tree)

    def memory(self) -> dict[str, Any]:
        """The memory of the passes so far, in bytes. Lists have an entry for each worker.

        Returns:
            ``peak_tensor_bytes`` and ``graph_bytes``, as in a run's summary; ``kinds``, and in ``peaks`` for
            each worker how the peak is made up of them; ``live_bytes`` of tensors now; ``shared_bytes``, the peak
            of the memory that the process shares with the program: parameters, outputs and gradients of all
            nets.
        """
        usage, program = self._usage()
        of = {key: usage[key] for key in ("peak_tensor_bytes", "graph_bytes", "live_bytes", "kinds", "peaks")}
        of.update({key: usage[key] for key in ("disk", "device") if key in usage})
        return of | {"shared_bytes": program.most}

    def messages(self) -> dict[str, Any]:
        """What workers sent each other in the last pass that has run backward, forward and backward.

        Returns:
            ``communication``, ``sent_bytes`` and ``edge_columns``, as in a run's summary; ``layers``, of each
            by its path in the module ``sent_bytes`` (rows of vertices and their gradients) and ``edge_columns``.
        """
        usage, _ = self._usage()
        return {key: usage[key] for key in ("communication", "sent_bytes", "edge_columns", "layers")}

    def _usage(self) -> tuple[dict[str, Any], _calls.Program]:
        model = self._divided.model(self.module, self._divided.columns)
        usage: dict[str, Any] = model.ask("usage")["usage"]
        return usage, model.program

    @contextlib.contextmanager
    def trace(self, file: str | os.PathLike[str]) -> Iterator[None]:
        """Writes a trace of the passes in its block: kernels, messages and waits of all workers.

        It is in Chrome's format, which https://ui.perfetto.dev shows. It has the first 131,072 spans of each
        worker.

        Args:
            file: where the trace is written when the block ends.

        Example:
            >>> with net.trace("step.json"):                                         # doctest: +SKIP
            ...     F.cross_entropy(net()[train], y[train]).backward()
        """
        model, path = (
            self._divided.model(self.module, self._divided.columns),
            os.path.abspath(os.fsdecode(file)),
        )
        model.ask("trace")
        try:
            yield
        finally:
            model.ask("trace", path=path)
