"""Modules on divided graphs as modules of PyTorch: the axes are an operator, and the loop is the caller's."""

from __future__ import annotations

import contextlib
import copy
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten

from . import _calls, _processes, _program
from ._divided import Divided
from ._errors import Refused
from ._forward import Call, called
from ._graph import Data
from ._graphs import Graphs, Place
from ._inputs import Reads
from ._model import Model
from ._module import uncompiled
from ._partition_by import divided_by, taken
from ._pass import NOT_EXPORTED, passed


def net_of(module: nn.Module, data: Data | None, settings: Mapping[str, Any]) -> Net:
    """The net of a module on a graph; None: each call gives a graph."""
    _program.refuse_torchrun()
    with _calls.told_of_refusals(f"weft.compile of {type(module).__name__}", settings.get("parallel")):
        module = uncompiled(module)
        if isinstance(module, Net) or not isinstance(module, nn.Module):
            raise Refused(f"module: {type(module).__name__} is no module to compile: give a torch.nn.Module")
        graphs = Graphs(settings)
        if data is None:
            graphs.check_axes()
        elif graphs.by:
            raise Refused("partition_by: names a tensor of calls that give their graphs: compile without one")
        divided = None if data is None else Divided(module, data, graphs.settings)
    net = Net(module, graphs, divided)
    if divided is None:
        graphs.begin(module)
    elif divided.lacking(module):
        divided.check()  # it is traced at the first call
    else:
        divided.model(module).tensors_of(net)  # which refuses other numbers than float32
    return net


#: What forward may take of a graph's edges, beside edge_index.
_OF_FORWARD = ("edge_weight", "edge_attr")

_told = False  # of other processes


def _tell_of_processes() -> None:
    """Warns once where each of several processes, as those of Lightning's ``devices=2``, computes all of a
    graph."""
    global _told
    group = torch.distributed
    if _told or not (group.is_available() and group.is_initialized() and group.get_world_size() > 1):
        return
    _told = True
    count = group.get_world_size()
    warnings.warn(
        f"each of the {count} processes of torch.distributed computes all of the graph: to divide it take "
        f'one process (devices=1 in Lightning), and compile with parallel="graph={count}"',
        stacklevel=4,
    )


class Net(nn.Module):  # type: ignore[misc]
    """A module on a divided graph, which :func:`weft.compile` makes.

    Its parameters, buffers and layers are those of ``module``.
    """

    def __init__(self, module: nn.Module, graphs: Graphs, divided: Divided | None) -> None:
        self.__dict__["module"] = module
        self.__dict__["_graphs"] = graphs
        self.__dict__["_own"] = divided
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
        return Net(copy.deepcopy(self.module, memo), self._graphs, self._own)

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
        return "of any graph" if self._own is None else f"on {self._own.graph or self._own.argument}"

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def forward(
        self,
        x: Tensor | Mapping[str, Tensor] | None = None,
        *others: Any,
        edges: Any = None,
        edge_weight: Any = None,
        edge_attr: Any = None,
        rows: Tensor | Mapping[str, Tensor] | None = None,
        samples: bool = False,
        **named: Any,
    ) -> Any:
        """What the module returns for the graph, or for one that the call gives.

        A net that was compiled without a graph is called as the module: with ``x`` and ``edge_index``, and
        with ``edge_attr``, ``edge_weight`` and ``batch`` if forward takes them, by position or by name; or
        with a Data, HeteroData or Batch. So may be one that has a graph. Numbers and flags are forward's.

        Args:
            x: V × F floats in place of the graph's features, with ``samples`` S × V × F. Of several vertex
                types a dict by type: those that it lacks have the graph's.
            edges: E booleans, in the order of the graph's edges: the pass has those edges alone, as if the
                graph had no others. Self loops that the module adds stay. A process among several gives those
                of ``net.edges``, here and below.
            edge_weight: E floats in place of the graph's weights, in that order.
            edge_attr: E × D floats in place of the graph's features of edges, in that order. Of several
                relations these three are dicts by (source type, name, target type).
            rows: vertex ids, or V booleans: outputs have the rows of these alone, as ``net()[rows]``. Of
                several vertex types a dict by type: outputs of those that it lacks have all rows. Along the
                graph axis no others are computed but those that they depend on, their message-flow graph; the
                page "Your own loop" says when all are.
            samples: each of the S has a pass of its own, one after the other; the outputs are stacked. Groups
                of workers (``parallel="graph=2,samples=2"``) each take one at a time.

        Raises:
            TypeError: forward takes other arguments.
            Refused: an input or a parameter is not what it was made for.
            Failed: the work failed.
        """
        if not isinstance(samples, bool):
            raise Refused(f"samples: is {samples!r}: give True, with x of S × V × F, or False")
        of_edges = {"edges": edges, "edge_weight": edge_weight, "edge_attr": edge_attr}
        if self._own is not None and not (others or named or hasattr(x, "stores")):
            return self._returned(self._own, x, of_edges, rows, samples)
        named |= {name: of_edges[name] for name in _OF_FORWARD if of_edges[name] is not None}
        arguments = others if x is None else (x, *others)
        with self._graphs.in_common():
            with self._told_of_refusals():
                call = self._bound(arguments, named, samples)
            structure = call.structure
            if not any(structure.vertices.values()):
                return self.module(*arguments, **named)  # there is nothing to divide
            divided = self._graphs.divided(self.module, call)
            of_edges = {
                "edges": structure.edges_by_relation(edges),
                "edge_weight": call.edge_weight,
                "edge_attr": call.edge_attr,
            }
            made = self._returned(
                divided,
                call.x,
                of_edges,
                structure.rows_by_type(rows),
                samples,
                call.data,
                self._graphs.sizes.new(structure) if edges is rows is None and not samples else set(),
                lambda module: module(*arguments, **named),
            )
            self._graphs.last = divided
            return made

    def _told_of_refusals(self) -> contextlib.AbstractContextManager[None]:
        """Other processes refuse a call that this one refuses before any other has part in it."""
        call = f"a call of {type(self.module).__name__}"
        return _calls.told_of_refusals(call, self._graphs.settings.get("parallel"))

    def _bound(self, arguments: tuple[Any, ...], named: dict[str, Any], samples: bool) -> Call:
        """What a call gives forward. named loses what forward does not take."""
        by = self._graphs.by
        divides = taken(by, self.module, arguments, named) if by else None
        call = called(self.module, arguments, named, samples)
        return replace(call, structure=divided_by(call.structure, by, divides)) if by else call

    def _returned(
        self,
        divided: Divided,
        x: Any,
        of_edges: Mapping[str, Any],
        rows: Any,
        samples: bool,
        data: bool = False,
        sizes: Set[tuple[str, int]] = frozenset(),
        as_written: Callable[[nn.Module], Any] | None = None,
    ) -> Any:
        """What the module returns for a graph.

        Args:
            of_edges: edges, edge_weight and edge_attr.
            data: forward takes one object, and may leave fields of it unread.
            sizes: the small sizes of the graph, of which there was no call yet.
            as_written: calls a module as the net is called.
        """
        with self._told_of_refusals():
            passes = divided.features.inputs(x, samples)
            edge_inputs = divided.edges.inputs(**of_edges)
        model = divided.model(self.module, Reads.from_inputs(divided.schema, [*passes[0], *edge_inputs]))
        if model.processes == 1:
            _tell_of_processes()
        if not data:
            divided.edges.check_read(model.traced, edge_inputs)
        passes = [divided.in_store(one) for one in passes]
        edge_inputs = divided.in_store(edge_inputs)
        state = model.tensors_of(self)
        if as_written is not None and sizes and model.samples == 1 and not model.draws[False]:

            def inferred() -> list[Tensor]:
                made = passed(model, state, False, [[*passes[0], *edge_inputs]])[0]
                return divided.edges.in_order(made, model.blocks, edge_inputs)

            def of_module(module: nn.Module) -> list[Tensor]:
                return divided.of_process(model, tree_flatten(as_written(module))[0])

            self._graphs.sizes.compare(sizes, self.module, of_module, inferred, model)
        if len(passes) % model.samples:
            raise Refused(
                f"samples: a pass takes {model.samples}, one on each group of workers, and the call has "
                f"{len(passes)}: call net(x, samples=True) with a multiple of {model.samples}, or compile "
                "without samples in parallel"
            )
        made = []
        for k in range(0, len(passes), model.samples):
            inputs = [[*one, *edge_inputs] for one in passes[k : k + model.samples]]
            made += [
                divided.edges.in_order(one, model.blocks, edge_inputs)
                for one in passed(model, state, self.training, inputs, rows)
            ]
        return model.outputs.returned(list(map(torch.stack, zip(*made))) if samples else made[0])

    @property
    def rank(self) -> int:
        """The number of this process among those of a launcher that work together; 0 without one."""
        return int(self._place.process)

    @property
    def workers(self) -> int:
        """How many processes of a launcher work together; 1 without one."""
        return int(self._place.processes)

    @property
    def group(self) -> int:
        """The number of this process's group among those that take samples of their own
        (``parallel="graph=4,samples=2"``); 0 where one process has all."""
        return int(self._place.group)

    @property
    def groups(self) -> int:
        """How many groups of workers take samples of their own; 1 without ``samples`` in ``parallel``."""
        return int(self._place.groups)

    @property
    def vertices(self) -> Any:
        """The vertices whose rows this process gives and gets: ids, ascending. Of several types a dict by
        type."""
        model = self._model()
        found = {
            vertex_type.name: self._divided.vertices(kind)
            for kind, vertex_type in enumerate(model.types)
            if not self._divided.schema.is_of_graphs(vertex_type.name)
        }
        return found if len(found) > 1 else next(iter(found.values()))

    @property
    def edges(self) -> Any:
        """The edges whose weights, features and outputs this process gives and gets: ids, ascending.

        They are those into ``vertices``. Of several relations a dict by (source type, name, target type).
        """
        self._model()
        found = self._divided.edges.ids()
        return found if len(found) > 1 else next(iter(found.values()))

    def sum(self, values: Tensor, group: bool = False) -> Tensor:
        """The sum of the tensors of all processes, of one shape, on all of them.

        It is differentiable: the gradient of each process's tensor is the sum of those of the results.

        Args:
            values: floats or whole numbers.
            group: the sum of those of this process's group alone, as for a mean over the vertices of a
                sample.
        """
        return _processes.total(self._model(), values, group)

    def rows(self, values: Tensor, vertices: Tensor, type: str | None = None) -> Tensor:  # noqa: A002
        """The rows of vertices that may be of other processes of this one's group, which has the same sample.

        Each process gives its own list. It is differentiable: gradients go to the processes that have the
        rows.

        Args:
            values: the rows of this process's vertices, as ``net()`` returns them: float32.
            vertices: ids, as in ``net.vertices``.
            type: the vertex type, where there are several.
        """
        return _processes.fetched(self._model(), self._kind(type), values, torch.as_tensor(vertices))

    def gather(self, values: Tensor, type: str | None = None) -> Tensor:  # noqa: A002
        """The rows of all vertices, in the order of their ids, on all processes of the group: as for a
        metric.

        Args:
            values: the rows of this process's vertices, as ``net()`` returns them: float32.
            type: the vertex type, where there are several.
        """
        model, kind = self._model(), self._kind(type)
        own = torch.tensor(model.types[kind].vertices)
        count = int(_processes.total(model, own, of_group=True, call=f"gather of rows of type {kind}"))
        return _processes.fetched(model, kind, values.detach(), torch.arange(count))

    def sum_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Adds up over the processes the gradients of parameters that are not the module's, which have those
        of this process's loss alone: as of layers before and behind the net. Those without one have none on
        all.

        Raises:
            Refused: the processes give others, or in another order, or with other values.
        """
        model, tensors = self._model(), list(dict.fromkeys(parameters))
        counts = torch.tensor([tensor.grad is not None for tensor in tensors], dtype=torch.int64)
        if model.processes > 1:
            call = f"sum of gradients of {len(tensors)} parameters"
            counts = _processes.total(model, counts, call=call, alike=_processes.checksums(tensors))
        for tensor, count in zip(tensors, counts.tolist()):
            if count:
                tensor.grad = self.sum(torch.zeros_like(tensor) if tensor.grad is None else tensor.grad)

    @property
    def _place(self) -> Place | Model:
        return self._graphs.place or self._model()

    def _model(self) -> Model:
        divided = self._divided
        return divided.model(self.module, divided.last)

    @property
    def _divided(self) -> Divided:
        """The net's graph, or that of the last call."""
        divided: Divided | None = self._own or self._graphs.last
        if divided is None:
            raise Refused("the net has no graph, and no call has given one yet: call it first")
        return divided

    def _kind(self, name: str | None) -> int:
        names = [vertex_type.name for vertex_type in self._model().types]
        if len(names) == 1 and name is None:
            return 0
        if name not in names:
            raise Refused(f"type: is {name!r}: give one of {', '.join(map(repr, names))}")
        return names.index(name)

    def memory(self) -> dict[str, Any]:
        """The memory of the passes so far, in bytes: of a net without a graph, on all its graphs. Lists have
        an entry for each worker.

        Returns:
            ``peak_tensor_bytes`` and ``graph_bytes``, as in a run's summary; ``kinds``, and in ``peaks`` for
            each worker how the peak is made up of them; ``live_bytes`` of tensors now; ``shared_bytes``, the
            peak of the memory that the process shares with the program: parameters, outputs and gradients of
            all nets.
        """
        usage, program = self._usage()
        figures = {
            key: usage[key] for key in ("peak_tensor_bytes", "graph_bytes", "live_bytes", "kinds", "peaks")
        }
        figures.update({key: usage[key] for key in ("disk", "device") if key in usage})
        return figures | {"shared_bytes": program.most}

    def messages(self) -> dict[str, Any]:
        """What workers sent each other in the last pass that has run backward, forward and backward.

        Returns:
            ``communication``, ``sent_bytes`` and ``edge_columns``, as in a run's summary; ``layers``, which
            has ``sent_bytes`` (rows of vertices and their gradients) and ``edge_columns`` of each layer by
            its path in the module.
        """
        usage, _ = self._usage()
        return {key: usage[key] for key in ("communication", "sent_bytes", "edge_columns", "layers")}

    def _usage(self) -> tuple[dict[str, Any], _calls.Program]:
        model = self._model()
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
        path = os.path.abspath(os.fsdecode(file))
        self._model()
        with self._divided.recording(path):
            yield
