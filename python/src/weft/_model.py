"""A module as a model of the program: what it is traced to, and what is known of its passes."""

from __future__ import annotations

import json
import math
import weakref
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from . import _calls, _program, _weights
from ._errors import Failed, Refused
from ._reached import operations_of, reached_by
from ._scratch import Scratch
from ._structure import Structure
from ._trace import Outputs


@dataclass(frozen=True)
class Traced:
    """What a module is traced to."""

    program: dict[str, Any]
    outputs: Outputs
    learned: Set[str] = frozenset()  # the parameters that have a gradient


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
    everywhere: bool = False  # each of several processes has the rows of all vertices of its type


def blocks_of(outputs: Outputs, types: Sequence[Type]) -> list[Block]:
    """The blocks of the tensors that forward returns."""
    numbers = numbers_of(types)
    return [
        Block(
            outputs.relations.index(kind) if edges else numbers.get(kind, 0), math.prod(shape), whole, edges
        )
        for kind, shape, whole, edges in zip(outputs.types, outputs.shapes, outputs.whole, outputs.edges)
    ]


def shapes_of(
    outputs: Outputs,
    types: Sequence[Type],
    edges: Mapping[str, int],
    rows: Mapping[int, int] = MappingProxyType({}),
) -> list[tuple[int, ...]]:
    """The shapes of the tensors that forward returns.

    edges: how many edges there are of the relations that they have rows of. rows: how many rows they have of
    some vertex types; of others all.
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
    return {vertex_type.name: number for number, vertex_type in enumerate(types)} if len(types) > 1 else {}


def arguments(
    module: nn.Module, program: Mapping[str, Any], words: Iterable[str], scratch: Scratch
) -> list[str]:
    """The words of the command line by which the program opens the graph for a module."""
    file, weights = scratch.path / "program.json", scratch.path / "init.safetensors"
    with scratch.writing("the module"):
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
        call: names the call in errors, where other processes make another one.
        structure: the graph, if words have none.
        like: a model that was opened with the same words.

    Raises:
        Refused: the graph or the settings do not go with the module.
        Failed: the graph was not divided.
    """

    def __init__(
        self,
        module: nn.Module,
        traced: Traced,
        words: list[str],
        lacking: Sequence[Mapping[str, Any]] = (),
        divided: int = 0,
        apart: bool = False,
        call: str = "",
        structure: Structure | None = None,
        like: Model | None = None,
    ) -> None:
        self.traced, self.outputs, self.learned = traced.program, traced.outputs, traced.learned
        self.program = _calls.program()
        self.number = next(self.program.numbers)
        self.begun = False  # it has had a pass
        self.ended = False  # a pass has failed
        # What is noted first is called last: the model is among those that are garbage when they are closed.
        weakref.finalize(self, self.program.close_models).atexit = False
        self.program.models.watch(self, self.number)
        fields: dict[str, Any] = {"arguments": words}
        memories, scratch = None, None
        if structure is not None:
            fields["graph"], memories = structure.request(self.program)
        if like is not None and not like.ended and like.program is self.program:
            fields["like"] = like.number
        else:
            scratch = Scratch()
            fields["arguments"] = arguments(module, self.traced, words, scratch)
        try:
            opened = self.ask(
                "open",
                "opening the graph",
                version=_program.PROTOCOL,
                divided=divided,
                apart=apart,
                call=call,
                lacking=lacking,
                keeps=(memories, like),
                **fields,
            )
        finally:
            if scratch is not None:
                scratch.close()
        self.types = [Type(**fields) for fields in opened["types"]]
        self.process, self.processes = opened.get("process", 0), opened.get("processes", 1)
        if self.processes > 1:
            self.program.together.set()
        self.group, self.groups = opened.get("group", 0), opened["groups"]
        self.samples = self.groups if self.processes == 1 else 1  # that a pass takes
        self.parameters = {
            parameter["name"]: tuple(parameter["shape"]) for parameter in opened.get("parameters", ())
        }
        self.buffers = {buffer["name"]: tuple(buffer["shape"]) for buffer in opened.get("buffers", ())}
        self.counters = opened.get("counters", [])
        self.edges = dict(zip(self.outputs.relations, opened.get("edges", ())))
        #: The vertex types whose rows all processes have, the graphs of a batch, with how many there are.
        self.everywhere: dict[int, int] = {}
        if self.processes > 1 and structure is not None and structure.batch:
            names = [vertex_type.name for vertex_type in self.types]
            self.everywhere = {names.index(structure.graphs): structure.count}
        self.draws: dict[bool, bool]  # by training
        self.blocks: list[dict[str, Any]]
        self.reached: list[_Reached]
        if like is not None:
            self.draws, self.blocks, self.reached = like.draws, like.blocks, like.reached
            return
        self.draws = {training: _draws(self.traced, training) for training in (False, True)}
        blocks = blocks_of(self.outputs, self.types)
        alone = [not (block.whole or block.edges) and block.type in self.everywhere for block in blocks]
        self.blocks = [asdict(replace(block, everywhere=one)) for block, one in zip(blocks, alone)]
        numbers = numbers_of(self.types)
        values = _values_of(self.traced, self.outputs)
        self.reached = [_Reached.from_program(self.traced, value, numbers) for value in values]

    def ask(self, ask: str, message: str = "", **fields: Any) -> dict[str, Any]:
        """The answer to a request about this model. message: what it does, where that may take long."""
        return self.program.ask(ask, message, model=self.number, **fields)

    def ask_pass(self, ask: str, **fields: Any) -> dict[str, Any]:
        """The answer to a request for a pass: the first one may take long."""
        message, self.begun = "" if self.begun else "the first pass", True
        try:
            return self.ask(ask, message, **fields)
        except Failed:
            self.ended = True
            raise

    def shapes(self, rows: Mapping[int, int]) -> list[tuple[int, ...]]:
        """The shapes of the outputs, with so many rows of some types."""
        return shapes_of(self.outputs, self.types, self.edges, {**self.everywhere, **rows})

    def tensors_of(self, net: nn.Module) -> dict[str, Tensor]:
        """The tensors of the module, or of what calls it, by all their names."""
        state: dict[str, Tensor] = dict(net.named_parameters(remove_duplicate=False))
        state.update(net.named_buffers(remove_duplicate=False))
        for names in (self.parameters, self.buffers):
            for name, shape in names.items():
                tensor = state.get(name)
                whole = (
                    tensor is not None and name in counters_of(self.traced) and not tensor.is_floating_point()
                )
                if (
                    tensor is None
                    or tuple(tensor.shape) != shape
                    or (tensor.dtype != torch.float32 and not whole)
                    or tensor.is_meta
                ):
                    now = (
                        "not there"
                        if tensor is None
                        else f"{tensor.dtype} {tuple(tensor.shape)} on {tensor.device}"
                    )
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


def counters_of(program: Mapping[str, Any]) -> set[str]:
    """The buffers that each pass in training changes by themselves."""
    return {update["name"] for update in program.get("updates", ())}


#: The operations that read inputs of a pass.
_INPUTS = ("features", "edge_weight", "edge_features")


@dataclass(frozen=True)
class _Reached:
    """What an output depends on, through which gradients go."""

    parameters: set[str]
    inputs: set[tuple[str, int]]  # by what they are, and the number of the vertex type or relation

    @classmethod
    def from_program(cls, program: Mapping[str, Any], output: int, types: Mapping[str, int]) -> _Reached:
        """types: the numbers of vertex types by their names, where there are several."""
        relations = {relation["name"]: number for number, relation in enumerate(program.get("relations", ()))}
        inputs = set()
        for o in operations_of(program, output):
            if o["op"] in _INPUTS:
                numbers = types if o["op"] == "features" else relations
                inputs.add((o["op"], numbers.get(o.get("of", ""), 0)))
        return cls(reached_by(program, output), inputs)


def _values_of(program: Mapping[str, Any], outputs: Outputs) -> list[int]:
    """For each tensor that forward returns, which value of the program it is.

    The program's output of a vertex type or a relation may be several tensors, joined by ``cat``: then each
    part is one.
    """
    values: dict[tuple[str, bool], list[int]] = {}
    each = list(zip(outputs.types, outputs.edges))
    every = (program["output"], *program.get("others", ()), *program.get("edge_outputs", ()))
    for joint, output in zip(outputs.joints(), every):
        count, last = each.count(joint), program["operations"][output]
        parts = last["in"] if count > 1 and last["op"] == "cat" and len(last["in"]) == count else []
        values[joint] = list(parts or [output] * count)
    return [values[joint].pop(0) for joint in each]
