"""A module on a graph that is divided."""

from __future__ import annotations

import contextlib
import inspect
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from torch import Tensor, nn

from . import _calls, _module, _processes, _program
from ._errors import Refused
from ._graph import Data, Graph, argument, graph_of
from ._inputs import Edges, Features, Input, Reads
from ._model import Model, Traced
from ._structure import Structure
from ._trace import Constant, Schema, tables_of
from ._tracings import constants_of, layers_of, momenta_of, traced

_TRACED = 16  # programs that are kept, of sets of numbers and flags

#: Settings of a net alone, which the program does not know.
_OWN = ("graph_cache", "partition_by")

#: What passes read that are given nothing which the graph lacks.
AS_IT_IS = Reads()


class Variant(NamedTuple):
    """What a model is made for."""

    frozen: frozenset[str]  # the layers that are in evaluation while the module trains
    momenta: tuple[float | None, ...]  # of batch norms
    reads: Reads  # what calls give of features and of edges that the graph lacks, or ask for gradients of


def settings_of(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are given, as the program takes them."""
    given = {name: value for name, value in settings.items() if value is not None and name not in _OWN}
    if "offload" in given:
        given["offload"] = _program.offload(given["offload"], given.get("device")) or ""
    return given


def words_of(settings: Mapping[str, Any]) -> list[str]:
    """Settings as words of the command line."""
    return [_program.flag(name, _program.axes(value)) for name, value in settings.items()]


class Shared:
    """What a module's models on all graphs of a net have in common."""

    def __init__(self, module: nn.Module) -> None:
        layers = list(module.named_modules())
        self.layers, self.constants = layers_of(layers), constants_of(layers)
        self.lock = threading.RLock()
        self.traced: dict[Any, Traced] = {}  # the last few
        self.models: weakref.WeakValueDictionary[Any, Model] = weakref.WeakValueDictionary()
        self.agreed = False  # all processes have the parameters of the first


class Divided:
    """A module and its copies on a graph that is divided, with a model for each variant."""

    def __init__(
        self,
        module: nn.Module,
        data: Data | Structure | None,
        settings: Mapping[str, Any],
        counts: Mapping[str, Any] | None = None,
        constants: tuple[Constant, ...] = (),
        shared: Shared | None = None,
    ) -> None:
        """
        Args:
            counts: of a plan of a graph that is not there yet, in place of data, by the flags of ``weft
                plan``.
            constants: numbers and flags that forward is called with.
            shared: what it has in common with other graphs of a net.
        """
        self.counts: Mapping[str, Any] = counts or {}
        self.graph: Graph | Structure | None = None
        self.argument = ""
        if counts is not None:
            self.schema = Schema.from_counts({**counts, "edge_features": counts.get("features_of_edges")})
        elif isinstance(data, Structure):
            self.graph, self.schema = data, replace(data.schema, constants=constants)
        else:
            self.graph = graph_of(data)
            self.argument = argument(data, self.graph)
            self.schema = Schema.from_counts(_module.counts_of({}, [self.argument]))
        self.features, self.edges = Features(self.schema), Edges(self.graph, self.schema)
        self.shared = shared or Shared(module)
        self.settings = settings_of(settings)
        self.number: tuple[_calls.Program | None, int] = None, 0
        self.models: dict[Variant, Model] = {}
        self.recorded: list[Model] | None = None  # the models whose passes are recorded
        self.begun = False  # there was a model
        self.last = AS_IT_IS  # what the last call read
        self._vertices: dict[int, Tensor] = {}  # by type, those of this process

    def in_store(self, inputs: Iterable[Input]) -> list[Input]:
        """What a pass takes of what a call gives."""
        return [
            self.features.in_store(one) if one.field == "features" else self.edges.in_store(one)
            for one in inputs
        ]

    def words(self) -> list[str]:
        """Those of the command line that open the graph."""
        return [
            *words_of(self.settings),
            *(_program.flag(name, count) for name, count in self.counts.items()),
            *([self.argument] if self.argument else []),
        ]

    def check(self) -> None:
        """Refuses settings that make no sense."""
        _calls.program().ask("check", version=_program.PROTOCOL, arguments=self.words())

    def lacking(self, module: nn.Module) -> set[str]:
        """The arguments of a call by which it gives what the module needs and the graph lacks."""
        tables = tables_of(module, self.schema).values()
        found = {"x" for name, columns in self.schema.features.items() if not columns and name not in tables}
        relations = self.schema.relations.values()
        there = {
            "edge_weight": any(relation.weighted for relation in relations),
            "edge_attr": any(relation.features for relation in relations),
        }
        needed = inspect.signature(module.forward).parameters.values()
        return found | {p.name for p in needed if p.default is p.empty and not there.get(p.name, True)}

    def model(self, module: nn.Module, reads: Reads = AS_IT_IS) -> Model:
        """The model that reads what calls give, for the layers of a module that are in evaluation.

        Raises:
            Refused: the module is another than when it was compiled, or does not go with the graph.
            Failed: the graph was not divided.
        """
        with self.shared.lock:
            return self._model(module, reads)

    def _model(self, module: nn.Module, reads: Reads) -> Model:
        layers = list(module.named_modules())
        self._check(layers)
        frozen = frozenset(path for path, layer in layers if layer.training != module.training)
        if frozen and not module.training:
            raise Refused(
                f"module: {min(frozen)} is in training, and the module in evaluation: call net.train(), and "
                "eval() of the layers that do not train"
            )
        variant = Variant(frozen, momenta_of(layers), reads)
        found = self.models.get(variant)
        if found is None:
            with _module.as_written():
                found = self._open(module, variant)
            if not self.begun:
                if not self.shared.agreed:
                    _processes.begin(found, module)
                    self.shared.agreed = True
                self._begin(found)
            self.begun, self.models[variant] = True, found
            self._record(found)
            self.features.keep(reads)
            # A schedule of momenta has a variant for each epoch, and update_bn one more.
            last = list(dict.fromkeys(key.momenta for key in self.models))[-2:]
            self.models = {key: model for key, model in self.models.items() if key.momenta in last}
        self.last = reads
        return found

    @contextlib.contextmanager
    def recording(self, path: str) -> Iterator[None]:
        """Writes a trace of the passes of all models in its block."""
        self.recorded = []
        try:
            for model in self.models.values():
                self._record(model)
            yield
        finally:
            recorded, self.recorded = [model for model in self.recorded if not model.ended], None
            if recorded:
                recorded[0].ask("trace", path=path, others=[model.number for model in recorded[1:]])

    def _record(self, model: Model) -> None:
        if self.recorded is not None and not model.ended:
            model.ask("trace")
            self.recorded.append(model)

    def _begin(self, model: Model) -> None:
        """Notes of which vertices and edges a process among several has the rows."""
        apart = model.processes > 1
        if not isinstance(self.graph, Structure):
            self.features.give([vertex_type.vertices for vertex_type in model.types])
            if apart:
                self.edges.give(self._edges_of_process)
        elif apart:  # calls give the rows of all
            self._vertices = {kind: _processes.vertices(model, kind) for kind in range(len(model.types))}
            self.features.choose(self._vertices)
            of_edges = [n for n, one in enumerate(self.schema.relations.values()) if not one.batch]
            self.edges.choose({number: _processes.edges(model, number) for number in of_edges})

    def vertices(self, kind: int) -> Tensor:
        """The vertices of a type whose rows this process has: ids, ascending."""
        if kind not in self._vertices:
            self._vertices[kind] = _processes.vertices(next(iter(self.models.values())), kind)
        return self._vertices[kind]

    def of_process(self, model: Model, outputs: list[Tensor]) -> list[Tensor]:
        """The rows of this process, of what the module returns for the whole graph."""
        if model.processes == 1 or len(outputs) != model.outputs.tree.num_leaves:
            return outputs
        keys = list(self.schema.relations.values())
        found = []
        for output, block in zip(outputs, model.blocks):
            if block["edges"]:
                output = output[self.edges.ids()[keys[block["type"]].key].to(output.device)]
            elif not (block["whole"] or block["everywhere"]):
                output = output[self.vertices(block["type"]).to(output.device)]
            found.append(output)
        return found

    def _edges_of_process(self, relation: int) -> Tensor:
        return _processes.edges(next(iter(self.models.values())), relation)

    def _check(self, layers: list[tuple[str, nn.Module]]) -> None:
        """Refuses layers of a module that is not what it was when it was compiled."""
        if layers_of(layers) != self.shared.layers:
            raise Refused(
                "module: its layers, or hooks on them, have changed since it was compiled: compile it again; "
                "a hook on the compiled module itself is called"
            )
        if changed := [
            name for name, value in constants_of(layers).items() if self.shared.constants.get(name) != value
        ]:
            raise Refused(
                f"module: {changed[0]} has changed since it was compiled, and its numbers were read then: "
                "compile it again"
            )

    def _open(self, module: nn.Module, variant: Variant) -> Model:
        frozen, reads = variant.frozen, variant.reads
        call = ("the first pass of " if self.begun else "weft.compile of ") + type(module).__name__
        if frozen:
            call += f" with {', '.join(sorted(frozen))} in evaluation"
        if reads.differentiable:
            call += f" with gradients of {', '.join(sorted({read for read, _ in reads.differentiable}))}"
        lacking, number = [one.request() for one in reads.lacking], self._number_in(_calls.program())
        words, apart = self.words(), self.graph is not None
        if not isinstance(self.graph, Structure):
            made = self._trace(module, variant, call)
            return Model(module, made, words, lacking, number, apart, call)
        shared, key = self.shared, (variant, self.schema.of_any_size())
        made = shared.traced.get(key) or self._trace(module, variant, call)
        last = list(shared.traced.items())[1 - _TRACED :]  # which may have it
        shared.traced = {**dict(last), key: made}
        like = shared.models.get((key, *words))
        model = Model(module, made, words, lacking, number, apart, call, self.graph, like)
        shared.models[(key, *words)] = model
        return model

    def _trace(self, module: nn.Module, variant: Variant, call: str) -> Traced:
        """What the module is traced to. Other processes are told of a refusal."""
        with _calls.told_of_refusals(call, self.settings.get("parallel")):
            return self.traced(module, variant.frozen, variant.reads)

    def traced(self, module: nn.Module, frozen: frozenset[str], reads: Reads) -> Traced:
        """What the module is traced to that reads what calls give, with some layers in evaluation."""
        schema = reads.schema(self.schema)
        if isinstance(self.graph, Structure):
            schema = schema.of_any_size()
        if not any(schema.features.values()) and not tables_of(module, schema):
            raise Refused(
                "x: the graph has no features: call net(x), or give them to the graph, as "
                "weft.Graph.of(data, x=…)"
            )
        made = traced(module, schema, frozen)
        return replace(made, program=reads.marked(made.program))

    def _number_in(self, program: _calls.Program) -> int:
        """The number of the divided graph, which all models have in common."""
        if self.number[0] is not program:
            self.number = program, next(program.numbers)
        return self.number[1]
