"""Modules on divided graphs as modules of PyTorch: the axes are an operator, and the loop is the caller's."""

from __future__ import annotations

import contextlib
import copy
import inspect
import json
import math
import os
import weakref
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten, tree_unflatten

from . import _calls, _module, _program, _watch, _weights
from ._compare import compare
from ._copies import copied
from ._edges import AS_IT_IS, Edges, Reads
from ._errors import Refused
from ._graph import Data, argument, graph_of
from ._pass import NOT_EXPORTED, Input, passed
from ._scratch import Scratch
from ._trace import Outputs, Schema


def net_of(module: nn.Module, data: Data, settings: Mapping[str, Any]) -> Net:
    """The net of a module on a graph."""
    if isinstance(module, Net) or not isinstance(module, nn.Module):
        raise Refused(f"module: {type(module).__name__} is no module to compile: give a torch.nn.Module")
    net = Net(module, _Divided(module, data, settings))
    if not net._divided.awaits_edges(module):
        net._state(net._divided.model(module))  # which refuses other numbers than float32
    return net


@dataclass
class _Traced:
    """What a module is traced to."""

    schema: Schema
    state: Any  # of the module, but for the numbers of its tensors, and of its layers that do not train
    program: dict[str, Any]
    outputs: Outputs
    learned: set[str]  # the parameters that have a gradient


#: What modules were traced to last, a few of each: on graphs with and without weights of edges.
_known: weakref.WeakKeyDictionary[nn.Module, list[_Traced]] = weakref.WeakKeyDictionary()


def _traced(module: nn.Module, schema: Schema, frozen: frozenset[str]) -> _Traced:
    """What a module is traced to on a graph, with some layers in evaluation.

    It is what it was before, if nothing of the module has changed.
    """
    shapes = {
        name: (of.shape, of.dtype)
        for name, of in module.state_dict(keep_vars=True).items()
        if isinstance(of, Tensor)
    }
    state = _watch.without_tensors(_watch.kept(module)), shapes, _layers(module), _constants(module), frozen
    known = _known.setdefault(module, [])
    for of in known:
        if (of.schema, of.state) == (schema, state):
            return of
    outputs = Outputs(frozen)
    with _watch.generators():
        own = copied(module).cpu()
        for p in own.parameters():
            p.requires_grad_(p.is_floating_point())
        _, program = _module.program_of(own, schema, outputs)
    _refuse_repeated(program)
    found = _Traced(schema, state, program, outputs, compare(own, schema, program, outputs))
    known[:] = [*known[-3:], found]
    return found


def _refuse_repeated(program: Mapping[str, Any]) -> None:
    """Refuses statistics that a backward pass moves once more, as PyTorch's do below a checkpoint."""
    for o in program["operations"]:
        if o["op"] == "batch_norm" and o.get("times", 1) > 1 and "mean" in o:
            raise Refused(
                f"module: {o['mean']}: below torch.utils.checkpoint, or in a reversible layer, a backward pass "
                'moves it once more: call the layers directly, and take recompute="blocks" to save memory'
            )


def _layers(module: nn.Module) -> list[Any]:
    """The layers of a module by their paths: their classes, attributes that are numbers and words, and hooks,
    which are called when the module is traced."""
    return [
        (
            path,
            type(layer),
            {name: of for name, of in vars(layer).items() if isinstance(of, _SIMPLE) and _says(name)},
            [_watch.name_of(hook) for kind in _HOOKS for hook in vars(layer)[kind].values()],
        )
        for path, layer in module.named_modules()
    ]


_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def _constants(module: nn.Module) -> dict[str, int]:
    """Checksums of the tensors of a module whose numbers are read when it is traced: whole numbers and truth
    values, buffers that are not saved, and tensors that are attributes."""
    found = {}
    for path, layer in module.named_modules():
        held = {name: of for name, of in vars(layer).items() if isinstance(of, Tensor)}
        for name, of in layer.named_buffers(recurse=False):
            if not of.is_floating_point() or name in layer._non_persistent_buffers_set:
                held[name] = of
        for name, of in held.items():
            if name != "num_batches_tracked" and not name.startswith("_cached"):
                numbers = of.detach().cpu().contiguous()
                found[f"{path}.{name}"] = zlib.crc32(numbers.reshape(-1).view(torch.uint8).numpy())
    return found


_SIMPLE = (bool, int, float, str, type(None))


def _says(name: str) -> bool:
    """Whether an attribute of that name says what a layer computes."""
    return name != "training" and not name.startswith("_")


class _Divided:
    """A module and its copies on a graph that is divided.

    There is a model for each set of layers that are in evaluation while the module trains, and for what calls
    give of edges that the graph lacks, or ask for gradients of.
    """

    def __init__(self, module: nn.Module, data: Data, settings: Mapping[str, Any]) -> None:
        self.graph = graph_of(data)
        self.argument = argument(data, self.graph)
        self.schema = Schema.of(_module.counts_of({}, self.argument))
        if "" not in self.schema.features:
            raise Refused(
                "graph: it has several types, and weft.compile takes graphs of one: take weft.train"
            )
        self.layers, self.constants = _layers(module), _constants(module)
        self.settings = {name: value for name, value in settings.items() if value is not None}
        if "offload" in self.settings:
            self.settings["offload"] = _program.offload(settings["offload"], settings.get("device")) or ""
        self.number: tuple[_calls.Program | None, int] = None, 0
        self.edges = Edges(self.graph, self.schema)
        self.models: dict[tuple[frozenset[str], Reads], Model] = {}

    def number_in(self, program: _calls.Program) -> int:
        """The number of the divided graph, which all models have in common."""
        if self.number[0] is not program:
            self.number = program, next(program.numbers)
        return self.number[1]

    def awaits_edges(self, module: nn.Module) -> bool:
        """Whether the module needs weights or features of edges that the graph lacks: calls give them."""
        there = {"edge_weight": False, "edge_attr": False}
        for relation in self.schema.relations.values():
            there["edge_weight"] |= relation.weighted
            there["edge_attr"] |= relation.features > 0
        needed = inspect.signature(module.forward).parameters.values()
        return any(not there.get(p.name, True) and p.default is p.empty for p in needed)

    def model(self, module: nn.Module, reads: Reads = AS_IT_IS) -> Model:
        """The model for the layers of a module that are in evaluation, and for what it reads of edges."""
        if _layers(module) != self.layers:
            raise Refused(
                "module: its layers, or hooks on them, have changed since it was compiled: compile it again; "
                "a hook on the compiled module itself is called"
            )
        if changed := [name for name, of in _constants(module).items() if self.constants.get(name) != of]:
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
        found = self.models.get((differ, reads))
        if found is None:
            scratch = Scratch()
            try:
                with _module.as_written():
                    found = self.models[differ, reads] = Model(module, self, differ, reads, scratch)
            finally:
                scratch.close()
        return found


@dataclass(frozen=True)
class Type:
    """A type of a graph's vertices."""

    name: str  # "": there is one
    vertices: int
    features: int


class Model:
    """A model of the program."""

    def __init__(
        self, module: nn.Module, of: _Divided, frozen: frozenset[str], reads: Reads, scratch: Scratch
    ) -> None:
        traced = _traced(module, reads.schema(of.schema), frozen)
        self.outputs, self.learned, program = traced.outputs, traced.learned, reads.marked(traced.program)
        self.traced = program
        self.draws = any(o["op"] == "dropout" for o in program["operations"])
        self.program = _calls.program()
        self.number = next(self.program.numbers)
        # What is noted first is called last: the model is among those that are garbage when they are closed.
        weakref.finalize(self, self.program.close_models).atexit = False
        self.program.models.watch(self, self.number)
        words = _arguments(module, program, of, scratch)
        lacking = [asdict(one) for one in reads.lacking]
        opened = self.program.ask(
            "open",
            says="opening the graph",
            divided=of.number_in(self.program),
            version=_calls.VERSION,
            net=self.number,
            arguments=words,
            lacking=lacking,
        )
        self.begun = False  # it has had a pass
        self.types = [Type(**of) for of in opened["types"]]
        self.parameters = {of["name"]: tuple(of["shape"]) for of in opened["parameters"]}
        self.buffers = {of["name"]: tuple(of["shape"]) for of in opened.get("buffers", ())}
        self.counters = opened.get("counts", [])
        self.floats = sum(map(math.prod, (*self.parameters.values(), *self.buffers.values())))
        self.blocks = [
            {"columns": math.prod(shape), "whole": whole}
            for shape, whole in zip(self.outputs.shapes, self.outputs.whole)
        ]
        self.reached = _reached_by(program, len(self.blocks))

    def ask(self, ask: str, **fields: Any) -> dict[str, Any]:
        says = "" if self.begun or ask != "forward" else "the first pass"
        self.begun |= ask == "forward"
        return self.program.ask(ask, says, net=self.number, blocks=self.blocks, **fields)


def _arguments(module: nn.Module, program: dict[str, Any], of: _Divided, scratch: Scratch) -> list[str]:
    """The words of the command line by which the program opens the graph for a module."""
    file, weights = scratch.path / "program.json", scratch.path / "init.safetensors"
    file.write_text(json.dumps(program), encoding="utf-8")
    _weights.write(weights, _weights.of_module(module, program))
    words = [_program.flag(name, _program.axes(value)) for name, value in of.settings.items()]
    return [*words, f"--program={file}", f"--init={weights}", of.argument]


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
            traced = _traced(module, of.schema, frozenset())
            words = _arguments(module, traced.program, of, scratch)
            loop = {"passes": passes, "features": gradients is not None, "gradients": gradients is not None}
            answer = program.ask("plan", "planning", version=_calls.VERSION, arguments=words, loop=loop)
    finally:
        scratch.close()
    found: dict[str, Any] = answer["planned"]
    first = answer["types"][0]
    outputs = sum(
        (1 if whole else first["vertices"]) * math.prod(shape)
        for shape, whole in zip(traced.outputs.shapes, traced.outputs.whole)
    )
    read = {of["name"] for of in traced.program["parameters"]}
    state = {name: of for name, of in module.named_parameters(remove_duplicate=False) if name in read}
    values = sum(of.numel() for of in state.values())
    buffers = sum(
        of.numel()
        for name, of in module.named_buffers(remove_duplicate=False)
        if name in read and of.is_floating_point()
    )
    pieces = [outputs] * (passes + 1)  # with the gradient of one
    if gradients:
        pieces += [first["vertices"] * first["features"]] * 2
    parameters = {_calls.bytes_of(values + buffers), _calls.bytes_of(values)}  # of a size the same memory
    return found | {"shared_bytes": sum(map(_calls.bytes_of, pieces)) + sum(parameters)}


def _reached_by(program: Mapping[str, Any], outputs: int) -> list[set[str]]:
    """The parameters that each output depends on."""
    last = program["operations"][program["output"]]
    parts = last["in"] if outputs > 1 and last["op"] == "cat" and len(last["in"]) == outputs else []
    return [_module.reached_by(program, k) for k in parts or [program["output"]] * outputs]


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
        x: Tensor | None = None,
        *,
        edges: Any = None,
        edge_weight: Any = None,
        edge_attr: Any = None,
        rows: Tensor | None = None,
        samples: bool = False,
    ) -> Any:
        """What the module returns for the graph.

        Args:
            x: V × F floats in place of the graph's features, with ``samples`` S × V × F.
            edges: E truth values, in the order of the graph's edges: the pass has those edges alone, as if the
                graph had no others. Self loops that the module adds stay.
            edge_weight: E floats in place of the graph's weights, in that order.
            edge_attr: E × D floats in place of the graph's features of edges, in that order.
            rows: numbers of vertices, or V truth values: outputs have the rows of these alone, as ``net()[rows]``. In
                evaluation without gradients no others are computed but those that they depend on, along the graph
                axis of a graph's own features and edges.
            samples: each of the S has a pass of its own, one after the other; the outputs are stacked.

        Raises:
            Refused: an input or a parameter is not what it was made for.
            Failed: the work failed.
        """
        if samples:
            if not isinstance(x, Tensor) or x.dim() != 3 or len(x) == 0:
                raise Refused("samples: x is S × V × F: a matrix of features for each sample")
            given = {"edges": edges, "edge_weight": edge_weight, "edge_attr": edge_attr, "rows": rows}
            of = [tree_flatten(self.forward(one, **given)) for one in x]
            return tree_unflatten(
                [torch.stack(made) for made in zip(*(leaves for leaves, _ in of))], of[0][1]
            )
        of_edges = self._divided.edges.inputs(edges=edges, edge_weight=edge_weight, edge_attr=edge_attr)
        model = self._divided.model(self.module, self._divided.edges.reads(of_edges))
        self._divided.edges.check_read(model.traced, of_edges)
        inputs = [*([] if x is None else [_features(x, model)]), *of_edges]
        made = passed(model, self._state(model), self.training, inputs, rows)
        return tree_unflatten(made, model.outputs.tree)

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
        model = self._divided.model(self.module)
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
        model, path = self._divided.model(self.module), os.path.abspath(os.fsdecode(file))
        model.ask("trace")
        try:
            yield
        finally:
            model.ask("trace", path=path)

    def _state(self, model: Model) -> dict[str, Tensor]:
        """The module's tensors by all their names."""
        state: dict[str, Tensor] = dict(self.named_parameters(remove_duplicate=False))
        state.update(self.named_buffers(remove_duplicate=False))
        for names in (model.parameters, model.buffers):
            for name, shape in names.items():
                of = state.get(name)
                if of is None or tuple(of.shape) != shape or of.dtype != torch.float32 or of.is_meta:
                    now = "not there" if of is None else f"{of.dtype} {tuple(of.shape)} on {of.device}"
                    raise Refused(
                        f"{name}: is {now}, and a compiled module computes with float32 {shape}: give it "
                        "these (net.float()), or compile the module again"
                    )
        return state


def _features(x: Tensor, model: Model) -> Input:
    of = model.types[0]
    if (
        not isinstance(x, Tensor)
        or not x.is_floating_point()
        or x.shape != (of.vertices, of.features)
        or x.is_meta
        or x.layout != torch.strided
    ):
        kind = type(x).__name__
        if isinstance(x, Tensor):
            kind = f"{x.dtype} {tuple(x.shape)} on {x.device}, {x.layout}"
        raise Refused(f"x: is {kind}: give floats of {of.vertices} vertices × {of.features} features")
    return Input("features", 0, x)
