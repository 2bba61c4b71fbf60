"""A module as a model of the program: what it is traced to, and what is known of its passes."""

from __future__ import annotations

import json
import math
import weakref
import zlib
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from . import _calls, _module, _progress, _watch, _weights
from ._compare import compare
from ._copies import copied
from ._errors import Failed, Refused
from ._graph import Graph
from ._inputs import Edges
from ._pass import passed
from ._scratch import Scratch
from ._trace import Outputs, Schema


@dataclass(frozen=True)
class Traced:
    """What a module is traced to."""

    program: dict[str, Any]
    outputs: Outputs
    learned: Set[str] = frozenset()  # the parameters that have a gradient


#: What modules were traced to last, a few of each, as on graphs with and without weights of edges. Each has
#: a key: the schema, and all of the module but the numbers of its parameters.
_known: weakref.WeakKeyDictionary[nn.Module, list[tuple[Any, Traced]]] = weakref.WeakKeyDictionary()


def traced(module: nn.Module, schema: Schema, frozen: frozenset[str]) -> Traced:
    """What a module is traced to on a graph, with some layers in evaluation.

    It is what it was before, if nothing of the module has changed.
    """
    shapes = {
        name: (of.shape, of.dtype)
        for name, of in module.state_dict(keep_vars=True).items()
        if isinstance(of, Tensor)
    }
    key = (
        schema,
        _watch.without_tensors(_watch.kept(module)),
        shapes,
        layers_of(module),
        momenta_of(module),
        constants_of(module),
        frozen,
    )
    known = _known.setdefault(module, [])
    for other, of in known:
        if _without(other, _counters(of.program)) == _without(key, _counters(of.program)):
            return of
    with _progress.shown(f"reading {type(module).__name__}"):
        found = _traced(module, schema, Outputs(frozen))
    known[:] = [*known[-3:], (key, found)]
    return found


def _without(key: tuple[Any, ...], counters: set[str]) -> tuple[Any, ...]:
    """What tells a trace from others, but for the numbers that buffers have counted to."""
    return tuple(
        {name: n for name, n in of.items() if name.removeprefix(".") not in counters} if k == _CONSTANTS else of
        for k, of in enumerate(key)
    )


_CONSTANTS = 5  # the place of constants_of


def _traced(module: nn.Module, schema: Schema, outputs: Outputs) -> Traced:
    with _watch.generators():
        own = copied(module).cpu()
        for p in own.parameters():
            p.requires_grad_(p.is_floating_point())
        _, program = _module.program_of(own, schema, outputs)
    _refuse_repeated(program)
    found = Traced(program, outputs, compare(own, schema, program, outputs, inferred))
    _calls.program().give_back()  # what the comparison took
    return found


def _refuse_repeated(program: Mapping[str, Any]) -> None:
    """Refuses statistics that a backward pass moves once more, as PyTorch's do below a checkpoint."""
    for o in program["operations"]:
        if o["op"] == "batch_norm" and o.get("times", 1) > 1 and "mean" in o:
            raise Refused(
                f"module: {o['mean']}: below torch.utils.checkpoint, or in a reversible layer, a backward "
                'pass moves it once more: call the layers directly, and take recompute="blocks" to save memory'
            )


def layers_of(module: nn.Module) -> list[Any]:
    """The layers of a module by their paths: their classes, attributes that are numbers and words but for momenta
    of batch norms, and hooks, which are called when the module is traced."""
    return [
        (
            path,
            layer.code if isinstance(layer, torch.fx.GraphModule) else type(layer),  # whose copies have classes of their own
            {
                name: of
                for name, of in vars(layer).items()
                if isinstance(of, _SIMPLE) and _says(name) and not (_is_norm(layer) and name == "momentum")
            },
            [_watch.name_of(hook) for kind in _HOOKS for hook in vars(layer).get(kind, {}).values()],
        )
        for path, layer in module.named_modules()
    ]


def momenta_of(module: nn.Module) -> tuple[float | None, ...]:
    """The momenta of the batch norms of a module, None for a mean of all batches: ``update_bn`` sets these."""
    return tuple(layer.momentum for layer in module.modules() if _is_norm(layer))


def _is_norm(layer: nn.Module) -> bool:
    return isinstance(layer, nn.modules.batchnorm._BatchNorm)


_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks") + tuple(
    f"_{of}_forward_{pre}hooks"  # of PyG's layers
    for of in ("propagate", "message", "aggregate", "message_and_aggregate", "edge_update")
    for pre in ("pre_", "")
)


def constants_of(module: nn.Module) -> dict[str, int]:
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


def inferred(module: nn.Module, program: Mapping[str, Any], outputs: Outputs, graph: Graph, schema: Schema) -> Any:
    """What the program of a module returns in evaluation for a graph, without a gradient."""
    model = Model(module, Traced(dict(program), outputs), ["--threads=1", str(graph.store)])
    with torch.no_grad():
        made = passed(model, model.tensors_of(module), False, [[]])[0]
    return outputs.returned(Edges(graph, schema).in_order(made, model.blocks, []))


@dataclass(frozen=True)
class Type:
    """A type of a graph's vertices."""

    name: str  # "": there is one
    vertices: int
    features: int


@dataclass(frozen=True)
class Block:
    """What a tensor that forward returns is of a pass's outputs."""

    type: int  # the number of the vertex type, or of the relation
    columns: int
    whole: bool  # it has no rows of vertices or edges
    edges: bool  # it has rows of edges, in the order of the store


def blocks_of(outputs: Outputs, types: Sequence[Type]) -> list[Block]:
    """The blocks of the tensors that forward returns."""
    numbers = numbers_of(types)
    return [
        Block(outputs.relations.index(kind) if edges else numbers.get(kind, 0), math.prod(shape), whole, edges)
        for kind, shape, whole, edges in zip(outputs.types, outputs.shapes, outputs.whole, outputs.edges)
    ]


def shapes_of(
    outputs: Outputs,
    types: Sequence[Type],
    edges: Mapping[str, int],
    rows: Mapping[int, int] = MappingProxyType({}),
) -> list[tuple[int, ...]]:
    """The shapes of the tensors that forward returns.

    edges: how many edges there are of the relations that they have rows of. rows: how many rows they have of some
    vertex types; of others all.
    """
    found = []
    for block, name, shape in zip(blocks_of(outputs, types), outputs.types, outputs.shapes):
        if block.edges:
            shape = (edges[name], *shape)
        elif not block.whole:
            shape = (rows.get(block.type, types[block.type].vertices), *shape)
        found.append(shape)
    return found


def numbers_of(types: Sequence[Type]) -> dict[str, int]:
    """The numbers of vertex types by their names, where there are several."""
    return {of.name: number for number, of in enumerate(types)} if len(types) > 1 else {}


def arguments(
    module: nn.Module, program: Mapping[str, Any], words: Iterable[str], scratch: Scratch
) -> list[str]:
    """The words of the command line by which the program opens the graph for a module."""
    file, weights = scratch.path / "program.json", scratch.path / "init.safetensors"
    file.write_text(json.dumps(program), encoding="utf-8")
    _weights.write(weights, _weights.of_module(module, program))
    return [f"--program={file}", f"--init={weights}", *words]


class Model:
    """A model of the program, until nobody has it any more.

    Args:
        module: was traced.
        traced: what to.
        words: the settings, and the graph.
        lacking: what all passes are given, as the graph has none.
        divided: the number of the divided graph, which several models may have in common; 0: its own.
        apart: each process of a launcher has the graph, and divides it in memory.

    Raises:
        Refused: the graph or the settings do not go with the module.
        Failed: the graph was not divided.
    """

    def __init__(
        self,
        module: nn.Module,
        traced: Traced,
        words: Iterable[str],
        lacking: Sequence[Mapping[str, Any]] = (),
        divided: int = 0,
        apart: bool = False,
    ) -> None:
        self.traced, self.outputs, self.learned = traced.program, traced.outputs, traced.learned
        self.draws = {training: _draws(self.traced, training) for training in (False, True)}
        self.program = _calls.program()
        self.number = next(self.program.numbers)
        self.begun = False  # it has had a pass
        self.ended = False  # a pass has failed
        # What is noted first is called last: the model is among those that are garbage when they are closed.
        weakref.finalize(self, self.program.close_models).atexit = False
        self.program.models.watch(self, self.number)
        scratch = Scratch()
        try:
            opened = self.ask(
                "open",
                "opening the graph",
                version=_calls.VERSION,
                divided=divided,
                apart=apart,
                arguments=arguments(module, self.traced, words, scratch),
                lacking=lacking,
            )
        finally:
            scratch.close()
        self.types = [Type(**of) for of in opened["types"]]
        self.process, self.processes = opened.get("process", 0), opened.get("processes", 1)
        if self.processes > 1:
            self.program.together.set()
        self.group, self.groups = opened.get("group", 0), opened["groups"]
        self.samples = self.groups if self.processes == 1 else 1  # that a pass takes
        self.parameters = {of["name"]: tuple(of["shape"]) for of in opened["parameters"]}
        self.buffers = {of["name"]: tuple(of["shape"]) for of in opened.get("buffers", ())}
        self.counters = opened.get("counters", [])
        self.blocks = [asdict(of) for of in blocks_of(self.outputs, self.types)]
        self.edges = dict(zip(self.outputs.relations, opened.get("edges", ())))
        numbers = numbers_of(self.types)
        values = _values_of(self.traced, self.outputs)
        self.reached = [_Reached.of(self.traced, value, numbers) for value in values]

    def ask(self, ask: str, says: str = "", **fields: Any) -> dict[str, Any]:
        """The answer to a request about this model. says: what it does, where that may take long."""
        return self.program.ask(ask, says, model=self.number, **fields)

    def ask_pass(self, ask: str, **fields: Any) -> dict[str, Any]:
        """The answer to a request for a pass: the first one may take long."""
        says, self.begun = "" if self.begun else "the first pass", True
        try:
            return self.ask(ask, says, **fields)
        except Failed:
            self.ended = True
            raise

    def shapes(self, rows: Mapping[int, int]) -> list[tuple[int, ...]]:
        """The shapes of the outputs, with so many rows of some types."""
        return shapes_of(self.outputs, self.types, self.edges, rows)

    def tensors_of(self, net: nn.Module) -> dict[str, Tensor]:
        """The tensors of the module, or of what calls it, by all their names."""
        state: dict[str, Tensor] = dict(net.named_parameters(remove_duplicate=False))
        state.update(net.named_buffers(remove_duplicate=False))
        for names in (self.parameters, self.buffers):
            for name, shape in names.items():
                of = state.get(name)
                whole = of is not None and name in _counters(self.traced) and not of.is_floating_point()
                if of is None or tuple(of.shape) != shape or (of.dtype != torch.float32 and not whole) or of.is_meta:
                    now = "not there" if of is None else f"{of.dtype} {tuple(of.shape)} on {of.device}"
                    raise Refused(
                        f"{name}: is {now}, and a compiled module computes with float32 {shape}: give it "
                        "these (net.float()), or compile the module again"
                    )
        return state


def _draws(program: Mapping[str, Any], training: bool) -> bool:
    """Whether a pass draws random numbers."""
    operations = program["operations"]
    left, seen = [program["output"], *program.get("others", ()), *program.get("edge_outputs", ())], set[int]()
    while left:
        if (k := left.pop()) in seen:
            continue
        seen.add(k)
        o = operations[k]
        if o["op"] == "uniform" or (training and o["op"] == "dropout"):
            return True
        read = o.get("in", [])
        if o["op"] == "where" and operations[read[0]]["op"] == "training":
            read = [read[1 if training else 2]]
        left += read
    return False


def _counters(program: Mapping[str, Any]) -> set[str]:
    """The buffers that each pass in training changes by themselves."""
    return {of["name"] for of in program.get("updates", ())}


@dataclass(frozen=True)
class _Reached:
    """What an output depends on, through which gradients go."""

    parameters: set[str]
    inputs: set[tuple[str, int]]  # by what they are, and the number of the vertex type or relation

    @classmethod
    def of(cls, program: Mapping[str, Any], output: int, types: Mapping[str, int]) -> _Reached:
        """types: the numbers of vertex types by their names, where there are several."""
        relations = {of["name"]: number for number, of in enumerate(program.get("relations", ()))}
        inputs = set()
        for o in _module.operations_of(program, output):
            if o["op"] in _INPUTS:
                numbers = types if o["op"] == "features" else relations
                inputs.add((o["op"], numbers.get(o.get("of", ""), 0)))
        return cls(_module.reached_by(program, output), inputs)


#: The operations that read inputs of a pass.
_INPUTS = ("features", "edge_weight", "edge_features")


def _values_of(program: Mapping[str, Any], outputs: Outputs) -> list[int]:
    """For each tensor that forward returns, which value of the program it is.

    The program's output of a vertex type or a relation may be several tensors, joined by ``cat``: then each part is
    one.
    """
    values: dict[tuple[str, bool], list[int]] = {}
    each = list(zip(outputs.types, outputs.edges))
    every = (program["output"], *program.get("others", ()), *program.get("edge_outputs", ()))
    for of, output in zip(outputs.joints(), every):
        count, last = each.count(of), program["operations"][output]
        parts = last["in"] if count > 1 and last["op"] == "cat" and len(last["in"]) == count else []
        values[of] = list(parts or [output] * count)
    return [values[of].pop(0) for of in each]
