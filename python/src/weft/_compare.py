"""A program beside the module that it was traced from: both compute the same, call after call, on small
graphs."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from . import _program, _watch, _weights
from ._alike import UNIFORM, Alike
from ._arrays import Array
from ._copies import copied
from ._errors import Refused
from ._graph import Graph
from ._lowering import KEEPS
from ._scratch import Scratch
from ._trace import SMALL, Called, Given, Outputs, Schema, as_traced, why

# By how much the program may differ from the module in float32, of the largest logit.
APART = 1e-3

_CALLS = 3  # in training, of one object

GRAPHS = 5  # in a batch


# What a program returns in evaluation: it is given a module, its program, outputs, and a graph with its
# schema.
Infer = Callable[[nn.Module, Mapping[str, Any], Outputs, Graph, Schema], Any]


def compare(
    module: nn.Module,
    schema: Schema,
    program: Mapping[str, Any],
    outputs: Outputs | None = None,
    infer: Infer | None = None,
) -> set[str]:
    """Refuses a program that computes something else than its module, and a module whose calls depend on
    those before.

    Of one graph the same object makes three calls in training, between which its parameters change, from
    other states of the generators of random numbers. Its output in evaluation is then that of the program
    with what it keeps by then. Of another graph a new object is compared.

    Returns:
        The names of the parameters that PyTorch gives a gradient.
    """
    draws = any(o["op"] == "uniform" for o in program["operations"])
    with _watch.generators(), as_traced(), Alike() if draws else contextlib.nullcontext():
        first = _Small(module, schema, program, *SMALL[0], outputs)
        learned = first.train()
        first.same_as_program(infer)
        _Small(module, schema, program, *SMALL[1], outputs).same_as_program(infer)
    return learned


def refuse_draws(module: nn.Module, schema: Schema) -> None:
    """Refuses a module that draws random numbers of Python or NumPy, which may be why it was refused when it
    was traced."""
    with _watch.generators():
        try:
            small = _Small(module, schema, {"operations": [], "parameters": []}, *SMALL[0])
        except Exception:  # what is wrong with it the trace has said
            return
        before = _watch.drawn()
        with contextlib.suppress(Exception):
            small.own.train()(small.own.tensors)
        small.refuse_draws(before)


class _Small:
    """A module on a small graph."""

    def __init__(
        self,
        module: nn.Module,
        schema: Schema,
        program: Mapping[str, Any],
        count: int,
        edges: int,
        outputs: Outputs | None = None,
    ) -> None:
        self.outputs = outputs
        self.schema, self.program, self.edges = schema, json.loads(json.dumps(program)), edges
        for o in self.program["operations"]:
            if o["op"] == "uniform":
                o |= {"op": "clamp", "min": UNIFORM, "max": UNIFORM}
        self.vertices = {
            name: GRAPHS if schema.is_of_graphs(name) else count + 4 * k
            for k, name in enumerate(schema.features)
        }
        self.module = copied(module).float().eval()
        self.cut_tables()
        self.arrays = self.drawn(np.random.default_rng(1))
        self.called = Called(
            self.module, schema, {key: torch.from_numpy(array) for key, array in self.arrays.items()}, outputs
        )
        self.called.compared = True
        if "edge_type" in self.called.names.values() and not self.called.joined:
            self.arrays[Given("edge_attr")][:] = np.random.default_rng(2).integers(0, 2, (edges, 1))
        self.fit_to_module()
        self.own = copied(self.called)

    def cut_tables(self) -> None:
        """Gives tables of a row for each vertex as many rows as there are here."""
        tables = {o["name"]: o.get("of", "") for o in self.program["operations"] if o["op"] == "table"}
        tensors = {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}
        for name, vertex_type in tables.items():
            rows = self.vertices[vertex_type] = min(
                self.vertices[vertex_type], self.schema.vertices[vertex_type]
            )
            tensors[name].data = tensors[name].data[:rows]
        for parameter in self.program["parameters"]:
            if parameter["name"] in tables:
                parameter["shape"][0] = self.vertices[tables[parameter["name"]]]

    def drawn(self, random: np.random.Generator) -> dict[Given, Array]:
        arrays: dict[Given, Array] = {}
        for name, width in self.schema.features.items():
            arrays[Given("n_id", name)] = np.arange(self.vertices[name])
            if width:
                arrays[Given("x", name)] = random.normal(size=(self.vertices[name], width)).astype(np.float32)
        for name, relation in self.schema.relations.items():
            if relation.batch:  # not in their order; the second graph is empty, the last is not
                numbers = random.integers(2, GRAPHS, self.vertices[relation.source])
                numbers[:2] = 0, GRAPHS - 1
                arrays[Given("batch", relation.source)] = numbers
                continue
            most = [
                [max(1, self.vertices[end] - 1)] for end in (relation.source, relation.target)
            ]  # the last vertex has no edges
            ends = arrays[Given("edge_index", name)] = random.integers(0, most, (2, self.edges))
            ends[:, -2:] = ends[:, [0, 0]]  # which stands there three times
            if relation.source == relation.target:
                ends[1, 1] = ends[0, 1]
            if relation.features:
                arrays[Given("edge_attr", name)] = random.normal(size=(self.edges, relation.features)).astype(
                    np.float32
                )
            if relation.weighted:
                arrays[Given("edge_weight", name)] = random.uniform(0.5, 1.5, self.edges).astype(np.float32)
        return arrays

    def fit_to_module(self) -> None:
        """Changes the graph to one that the module can be called on, and gives numbers of."""
        if self.called.dgl:
            for spec, numbers in self.arrays.items():
                if spec.what == "batch":  # the vertices of a graph stand one behind the other
                    numbers.sort()
            try:
                self.call()
            except (
                sys.modules["dgl"].DGLError,
                IndexError,
            ):  # of layers that refuse vertices without edges into them
                self.give_each_edges()
        try:
            made = self.call()
        except IndexError:  # of rows of a table by numbers that features hold: each table has 0 and 1
            for spec, features in self.arrays.items():
                if spec.what not in ("edge_index", "n_id"):
                    features[:] = features > 0
            made = self.call()
        if not np.isfinite(made).all():  # as of a quotient by the number of edges
            self.give_each_edges()

    def call(self) -> Array:
        """The logits in evaluation of a new object."""
        with torch.no_grad():
            made: Array = flat(copied(self.called)(self.called.tensors)).numpy()
        return made

    def give_each_edges(self) -> None:
        for name, relation in self.schema.relations.items():
            if relation.batch:
                continue
            into = min(self.edges - 2, self.vertices[relation.target])
            ends = np.arange(1, into + 1) % self.vertices[relation.source], np.arange(into)
            self.arrays[Given("edge_index", name)][:, 2 : 2 + into] = ends

    # -- call after call

    def train(self) -> set[str]:
        """Calls the same object several times in training, and then in evaluation."""
        own, read = self.own.train(), set[str]()
        changes, late, learned, made_of = set[str](), set[str](), set[str](), set[str]()
        for number in range(_CALLS):
            fresh, before = self.with_state_of(own), _watch.kept(own.module)
            theirs, tensors = self.in_training(own, number, read)
            anew, _ = self.in_training(fresh, number + 1000, set())
            after = _watch.kept(own.module)
            changes |= _watch.changed(before, after)
            outer = _watch.outer(after, own.module)
            if not apart(theirs.detach().numpy(), anew.detach().numpy()) <= APART:
                self.refuse_change(changes & (read | outer))
            if number == 0:
                learned = self.learned(fresh, anew)
            else:
                late |= _watch.changed(_watch.without_tensors(before), _watch.without_tensors(after))
                made_of |= tensors.changed(before, after)
            with torch.no_grad():
                for p in own.parameters():
                    if p.requires_grad:
                        p.mul_(1.05).add_(
                            0.01 * torch.randn(p.shape, generator=torch.Generator().manual_seed(number))
                        )
        fresh = self.with_state_of(own).eval()
        with torch.no_grad(), _watch.reads(own.module, read):
            theirs = flat(own.eval()(own.tensors))
        if not apart(theirs.numpy(), flat(fresh(own.tensors)).detach().numpy()) <= APART:
            self.refuse_change(changes & (read | outer))
        if found := late & (read | outer) | made_of:
            self.refuse_change(found)
        return learned

    def with_state_of(self, own: Called) -> Called:
        """A new object with the parameters and buffers of another."""
        fresh: Called = copied(self.called).train()
        with torch.no_grad():
            for method in ("parameters", "buffers"):
                for new, old in zip(getattr(fresh, method)(), getattr(own, method)()):
                    new.copy_(old)
        return fresh

    def in_training(self, called: Called, number: int, read: set[str]) -> tuple[Tensor, _watch.TensorsRead]:
        """The output of a call, and which tensors it read; the names of the attributes that it read go into a
        set."""
        _watch.seed(number)
        before, tensors = _watch.drawn(), _watch.TensorsRead()
        try:
            with _watch.reads(called.module, read), tensors:
                made = flat(called(called.tensors))
        except Exception as error:  # whatever the module raises
            raise why(error, called.names) from None
        self.refuse_draws(before)
        return made, tensors

    def refuse_draws(self, before: Any) -> None:
        """Refuses a call that drew from Python's or NumPy's generators, whose state before it is given."""
        if _watch.drawn() != before:
            line = _watch.line_that_changes(
                lambda: copied(self.called).train()(self.called.tensors), _watch.drawn
            )
            raise Refused(
                f"model: {line and line + ': '}forward draws random numbers of Python or NumPy, of which the "
                "first call would count for all: nn.Dropout is the one random layer that weft has"
            )

    def refuse_change(self, names: set[str]) -> None:
        name = min(names, default="what it keeps")
        own = copied(self.called).train()

        def calls() -> None:
            for _ in range(_CALLS):
                own(own.tensors)

        line = _watch.line_that_changes(calls, lambda: _watch.kept(own.module).get(name)) if names else ""
        raise Refused(f"model: {line and line + ': '}forward changes {name}: {KEEPS}")

    @staticmethod
    def learned(called: Called, logits: Tensor) -> set[str]:
        """The names of the parameters that have a gradient."""
        if logits.requires_grad:
            try:
                logits.sum().backward()
            except RuntimeError as why:
                raise Refused(
                    f"model: PyTorch computes no gradient of it: {' '.join(str(why).split())[:200]}"
                ) from None
        return {
            name for name, p in called.module.named_parameters(remove_duplicate=False) if p.grad is not None
        }

    # -- beside the program

    def same_as_program(self, infer: Infer | None) -> None:
        """Compares what the object computes in evaluation with the program, of what the object keeps now."""
        with torch.no_grad():
            theirs = flat(self.own.eval()(self.called.tensors)).numpy()
        graph = self.graph()
        if self.outputs is None or infer is None:
            ours = self.predicted(graph)
        else:
            made = infer(self.own.module, self.program, self.outputs, graph, self.schema)
            counts = {name: self.vertices[name] for name in self.outputs.kinds}
            ours = flat(
                self.outputs.joined(made, counts, dict.fromkeys(self.schema.relations, self.edges))
            ).numpy()
        difference = apart(ours, theirs)
        if not difference <= APART:
            raise Refused(
                f"model: on a small graph the program of {type(self.module).__name__} computes logits that "
                f"differ from those of its forward by {difference:.1e}; this is a mistake of weft: please "
                "report it with the module"
            )

    def graph(self) -> Graph:
        """The graph as that of its own types, in which a batch is a relation."""
        schema = self.schema
        arrays = {spec: array for spec, array in self.arrays.items() if spec.what != "n_id"}
        if "" in schema.features:
            return Graph(**{spec.what: array for spec, array in arrays.items()}, num_nodes=self.vertices[""])
        by_type: dict[str, dict[Any, Array]] = {}
        for spec, array in arrays.items():
            if spec.what == "batch":
                key = schema.relations[schema.batches[spec.type_name]].key
                by_type.setdefault("edge_index", {})[key] = np.stack([np.arange(len(array)), array])
            else:
                relation = schema.relations.get(spec.type_name)
                by_type.setdefault(spec.what, {})[relation.key if relation else spec.type_name] = array
        return Graph(**by_type, num_nodes=self.vertices)

    def predicted(self, graph: Graph) -> Array:
        """The logits of the program for a graph."""
        scratch = Scratch()
        try:
            file, weights, out = (
                scratch.path / name for name in ("program.json", "init.safetensors", "logits.npy")
            )
            with scratch.writing("the module"):
                file.write_text(json.dumps(self.program), encoding="utf-8")
                _weights.write(weights, _weights.of_module(self.own.module, self.program))
            _program.run(
                [
                    "predict",
                    str(graph.store),
                    f"--program={file}",
                    f"--init={weights}",
                    f"--out={out}",
                    "--threads=1",
                ]
            )
            made: Array = np.load(out).reshape(-1)
            return made
        finally:
            scratch.close()


def flat(made: Tensor | Iterable[Tensor]) -> Tensor:
    """The numbers of one tensor, or of several."""
    return torch.cat([tensor.reshape(-1) for tensor in ([made] if isinstance(made, Tensor) else made)])


def apart(ours: Array, theirs: Array) -> float:
    """The largest difference of two outputs, of the largest number in the second. Both may lack the same
    numbers."""
    same = np.isnan(ours) & np.isnan(theirs)
    most = max(1.0, float(np.abs(theirs[~same]).max(initial=0)))
    return float(np.abs(ours - theirs)[~same].max(initial=0)) / most
