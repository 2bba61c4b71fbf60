"""Modules of PyTorch as models: what a training is given in their place, and what it leaves of them."""

from __future__ import annotations

import contextlib
import copy
import inspect
import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _program, _progress, _weights
from ._errors import Refused, reading
from ._reached import reached_by
from ._scratch import Scratch

if TYPE_CHECKING:
    import torch

    from ._trace import Outputs, Program, Schema


def is_module(model: Any) -> bool:
    """Whether a model is a module of PyTorch, which is not imported for that."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def uncompiled(model: Any) -> Any:
    """The module whose forward a function runs: torch.compile makes one of a module that it has compiled
    before. Another model is what it was."""
    forward = None if is_module(model) else getattr(model, "_torchdynamo_orig_callable", None)
    module: Any = getattr(forward, "__self__", None)
    return module if is_module(module) and forward == module.forward else model


def name_of(model: Any) -> str:
    """The name of a model, of its class, or of the function that makes it."""
    if is_module(model):
        return type(model).__name__
    return str(getattr(model, "__name__", type(model).__name__)) if callable(model) else str(model)


def class_of(directory: Path) -> str:
    """The name of the class of a run's module; "": it has none."""
    file = directory / "program.json"
    with reading(file):
        return str(json.loads(file.read_text(encoding="utf-8"))["class"]) if file.exists() else ""


def counts_of(settings: Mapping[str, Any], graph: Sequence[str]) -> dict[str, Any]:
    """What ``weft inspect --json`` says of a graph, which is perhaps read from tables as settings say.

    Args:
        settings: of a training.
        graph: how the program is given the graph; empty: settings have its counts.
    """
    if not graph:
        return {name: settings.get(name) for name in ("vertices", "features", "classes")}
    some = {name: settings[name] for name in of_tables(settings) if settings[name] is not None}
    flags = [flag for name, value in some.items() for flag in _program.flags(name, value)]
    return json.loads(_program.run(["inspect", *graph, "--json", *flags]))  # type: ignore[no-any-return]


def of_tables(settings: Iterable[str]) -> list[str]:
    """Those of the names of settings that say how tables are read, and what is learned of their edges."""
    flags = _program.flags_of("train")
    return [
        name
        for name in settings
        if name == "edge_label" or flags.get(name, {}).get("group", "").startswith("Tables")
    ]


def made(make: Callable[[Any, int], Any], counts: Mapping[str, Any]) -> torch.nn.Module:
    """The module that a function makes, or a class: it is called with the graph's numbers of columns of
    features, by vertex type where there are several, and of classes or values to predict."""
    features: Any = int(counts.get("features") or 0)
    if "types" in counts:
        features = {vertex_type["type"]: int(vertex_type["features"]) for vertex_type in counts["types"]}
    arguments = features, int(counts.get("classes") or counts.get("value_columns") or 0)
    name = name_of(make)
    try:
        inspect.signature(make).bind(*arguments)
    except (TypeError, ValueError) as error:
        raise Refused(
            f"model: {name} is called with (features, classes), here {arguments}: {error}; give a module, or "
            f"lambda features, classes: {name}(…)"
        ) from None
    module = make(*arguments)
    if not is_module(module):
        raise Refused(f"model: {name}{arguments} returns a {type(module).__name__}: return a torch.nn.Module")
    return module


def in_place(
    settings: Mapping[str, Any],
    graph: Sequence[str],
    scratch: Scratch,
    name: str = "",
    counts: Mapping[str, Any] | None = None,
    progress: bool = True,
) -> tuple[dict[str, Any], torch.nn.Module | None]:
    """The settings, with a program and its initial values in the place of a module; and the module, if there
    is one.

    Args:
        settings: of a training.
        graph: how the program is given the graph; empty: settings have its counts.
        scratch: where the files go.
        name: of the files and of the model; "": that of its class.
        counts: of the graph; None: they are asked for where they are needed.
        progress: whether what takes long says so, in a notebook or on a terminal.
    """
    module: Any = uncompiled(settings.get("model"))
    optimizer: Any = settings.get("optimizer")
    scheduler: Any = settings.get("scheduler")
    if scheduler is not None and optimizer is None:
        optimizer = getattr(scheduler, "optimizer", None)
    groups = hasattr(optimizer, "param_groups")
    if scheduler is not None and (not groups or getattr(scheduler, "optimizer", None) is not optimizer):
        raise Refused(
            "scheduler: is of no optimizer, or of another one: give its own as optimizer, an object of "
            "torch.optim"
        )
    if counts is None:
        counts = counts_of(settings, graph) if callable(module) or callable(settings.get("loss")) else {}
    if settings.get("edge_label") is not None:
        counts = _of_edges(counts, settings["edge_label"])
    if callable(module) and not is_module(module):
        module = made(module, counts)
    if not is_module(module):
        if groups:
            raise Refused(
                "optimizer: is of the parameters of a module; give it as model, or the optimizer by its name"
            )
        return dict(settings) | _of_loss(settings, counts, None, scratch), None
    if find_spec("torch.export") is None:
        raise Refused(
            f"model: a module is read by torch.export, which PyTorch {sys.modules['torch'].__version__} "
            "lacks: install PyTorch 2.6 to 2.15"
        )
    with as_written(), _progress.shown(f"reading {name_of(module)}", progress and _progress.is_watched()):
        return _traced(module, optimizer, settings, counts, scratch, name)


def _of_edges(counts: Mapping[str, Any], label: str) -> Mapping[str, Any]:
    """Counts with the classes and values of the labels of edges in the place of those of vertices.

    Args:
        counts: of the graph.
        label: COLUMN, or RELATION:COLUMN.
    """
    relation, _, column = label.rpartition(":")

    def named(labels: Mapping[str, Any]) -> bool:
        full = labels.get("relation", "vertex__edge__vertex")  # of a graph without names, whose list has any
        alike = relation == full or full == "vertex__edge__vertex" or f"__{relation}__" in full
        return labels["column"] == label or bool(relation) and labels["column"] == column and alike

    labels: Mapping[str, Any] = next(filter(named, counts.get("edge_labels", ())), {})
    none = {"classes": 0, "multi_label": False, "value_columns": 0, "class_names": None}
    return {**counts, **none, **labels}


def _traced(
    module: torch.nn.Module,
    optimizer: Any,
    settings: Mapping[str, Any],
    counts: Mapping[str, Any],
    scratch: Scratch,
    name: str,
) -> tuple[dict[str, Any], torch.nn.Module]:
    """The settings, with a program in the place of the module, and the module."""
    from . import _watch
    from ._compare import compare
    from ._copies import copied
    from ._inferred import inferred
    from ._trace import Outputs, Schema

    scheduler, groups = settings.get("scheduler"), hasattr(optimizer, "param_groups")
    flags, of_parameters = _optimized(module, optimizer, settings) if groups else ({}, {})
    if scheduler is not None:
        flags |= _scheduled(scheduler, settings, scratch)
    if hooked := [
        name for name, p in module.named_parameters() if p._backward_hooks or p._post_accumulate_grad_hooks
    ]:
        raise Refused(
            f"model: {hooked[0]} has a hook on its gradient: remove it; a rate of its own is given by an "
            "optimizer"
        )
    with _watch.generators():  # lazy layers draw from them
        original, module = module, copied(module).cpu()
        schema = Schema.from_counts(counts)
        outputs = Outputs() if settings.get("edge_label") is not None else None
        traced, program = program_of(module, schema, outputs)
    if outputs is not None and not (outputs.tree.num_leaves == 1 and outputs.edges[0]):
        raise Refused(
            'model: with task="edge" forward returns one tensor of edges × classes, and nothing else'
        )
    file, weights = (scratch.path / f"{name}{end}" for end in ("program.json", "init.safetensors"))
    program["class"] = name or program["class"]
    for parameter in program["parameters"]:
        if groups and parameter.get("trained"):
            parameter.update(of_parameters.get(_names_of(module)[parameter["name"]][0], {"trained": False}))
    _check_tables(program)
    _mark_trained(program, compare(module, schema, program, outputs, inferred))
    with scratch.writing("the module"):
        file.write_text(json.dumps(program), encoding="utf-8")
        _weights.write(weights, _weights.of_module(module, program))
    flags |= _of_loss(settings, counts, traced.shape if outputs is None else outputs.shapes[0], scratch)
    rest = {name: value for name, value in settings.items() if name not in ("model", "init", *_program.OURS)}
    init = settings.get("init")
    return rest | flags | {"program": file, "init": weights if init is None else init}, original


def program_of(
    module: torch.nn.Module, schema: Schema, outputs: Outputs | None = None
) -> tuple[Program, dict[str, Any]]:
    """What a module is traced to, and the program, which names all that share a tensor.

    Args:
        outputs: joins what forward returns; None: it returns one tensor of vertices × classes.
    """
    from ._compare import refuse_draws
    from ._trace import tables_of, trace

    if not any(schema.features.values()) and not tables_of(module, schema):
        raise Refused("model: forward takes x, and the graph has no features; give x, or random_features=64")
    for path, layer in module.named_modules():
        if layer._backward_hooks or layer._backward_pre_hooks:
            raise Refused(
                f"model: {path or type(layer).__name__} has a hook of its backward pass, which is not "
                "called: remove it"
            )
    try:
        traced = trace(module, schema=schema, outputs=outputs)
    except Refused:
        refuse_draws(module, schema)
        raise
    program = json.loads(traced.text)
    names = _names_of(module)
    for parameter in program["parameters"]:
        others = [name for name in names[parameter["name"]] if name != parameter["name"]]
        if others:
            parameter["aliases"] = others
    return traced, program


def _names_of(module: torch.nn.Module) -> dict[str, list[str]]:
    """All names of each tensor in the state_dict, by each of them."""
    shared: dict[int, list[str]] = {}
    for name, tensor in module.state_dict(keep_vars=True).items():
        shared.setdefault(id(tensor), []).append(name)
    return {name: group for group in shared.values() for name in group}


@contextlib.contextmanager
def as_written() -> Iterator[None]:
    """PyTorch computes gradients and makes tensors on the CPU, whatever the caller has set, and what
    torch.compile made of modules, layers and functions runs as it was before."""
    import torch

    with torch.inference_mode(False), torch.enable_grad():
        if not hasattr(getattr(torch, "compiler", None), "set_stance"):  # before 2.6
            yield
            return
        here = contextlib.nullcontext() if torch.empty(0).device.type == "cpu" else torch.device("cpu")
        with torch.compiler.set_stance("force_eager"), here:
            config = torch._dynamo.config
            nested = (
                config.error_on_nested_fx_trace
            )  # 2.6 refuses to trace what was compiled, unless this is off
            config.error_on_nested_fx_trace = False
            try:
                yield
            finally:
                config.error_on_nested_fx_trace = nested


def _mark_trained(program: dict[str, Any], learned: set[str]) -> None:
    """Says which parameters are trained: those that have a gradient, as an optimizer of PyTorch leaves out
    the others."""
    reached = reached_by(program, program.get("edge_outputs", [program["output"]])[0])
    names = {
        parameter["name"]: {parameter["name"], *parameter.get("aliases", ())}
        for parameter in program["parameters"]
    }
    if missing := learned.difference(*(names[name] for name in reached & names.keys())):
        raise Refused(
            f"model: PyTorch has a gradient of {min(missing)}, and weft has none: this is a mistake of weft: "
            "please report it with the module"
        )
    for parameter in program["parameters"]:
        parameter["trained"] = bool(parameter["trained"] and names[parameter["name"]] & learned)
    _check_tables(program)
    if not any(p["trained"] and p["name"] in reached for p in program["parameters"]):
        raise Refused(
            "model: no parameter has a gradient: there is none, forward is under torch.no_grad, or all have "
            "requires_grad=False"
        )


def _check_tables(program: Mapping[str, Any]) -> None:
    """Refuses tables that are not trained."""
    tables = {o["name"] for o in program["operations"] if o["op"] == "table"}
    if still := [p["name"] for p in program["parameters"] if p["name"] in tables and not p["trained"]]:
        raise Refused(
            f"model: {still[0]} has a row for each vertex, and is not trained: give its rows as features, x"
        )


def _of_loss(
    settings: Mapping[str, Any], counts: Mapping[str, Any], shape: Any, scratch: Scratch
) -> dict[str, Any]:
    """The settings of a loss that is a function."""
    if not callable(settings.get("loss")):
        return {}
    from . import _loss

    with as_written():
        return _loss.flags(settings["loss"], counts, shape, scratch)


# What weft has of each optimizer: flags by the names of PyTorch's options.
_OPTIONS = {
    "SGD": {"momentum": "momentum"},
    "Adam": {"betas": "adam_beta2"},
    "AdamW": {"betas": "adam_beta2"},
}

# The options that change no result, and the values of others that weft has.
_IGNORED = (
    "params lr weight_decay foreach capturable differentiable fused initial_lr param_names max_lr min_lr "
    "max_momentum base_momentum"
).split()
_FIXED = {"dampening": 0, "nesterov": False, "maximize": False, "amsgrad": False, "eps": 1e-8}


def _optimized(
    module: torch.nn.Module, optimizer: torch.optim.Optimizer, settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The settings of an optimizer, and the rate and the decay of each parameter by its name."""
    import torch

    kind = type(optimizer).__name__
    if kind not in _OPTIONS or type(optimizer) is not getattr(torch.optim, kind):
        raise Refused(f"optimizer: {kind} is none of torch.optim's {', '.join(_OPTIONS)}; give one of these")
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    first, options = optimizer.param_groups[0], {}
    rate = next((_rate(group) for group in optimizer.param_groups if _rate(group)), 0.0)
    if not rate:
        raise Refused("optimizer: its lr is 0, which leaves all parameters as they are: give one above 0")
    flags: dict[str, Any] = {"optimizer": kind.lower(), "lr": rate}
    for group in optimizer.param_groups:
        for name, value in group.items():
            if name in _IGNORED:
                continue
            option = _OPTIONS[kind].get(name)
            if option and value == first[name] and (name != "betas" or value[0] == 0.9):
                flags[option] = float(value[1] if name == "betas" else value)
            elif option or value != (_FIXED | {"decoupled_weight_decay": kind == "AdamW"}).get(name):
                raise Refused(f"optimizer: {name}={value!r} is not what weft has: {_said(kind, name)}")
        for parameter in group["params"]:
            if id(parameter) not in names:
                raise Refused(
                    "optimizer: has a parameter that is none of the model; make it of model.parameters()"
                )
            if _rate(group):  # else it stays as it is
                own = {"rate": _rate(group) / rate, "decay": float(group["weight_decay"])}
                options[names[id(parameter)]] = own
    for name in ("weight_decay", *flags):
        if name != "optimizer" and settings.get(name) is not None:
            raise Refused(
                f"{name}: the optimizer has its own; leave it out, or give the optimizer by its name"
            )
    return {name: value for name, value in flags.items() if (name, value) != ("momentum", 0.0)}, options


def _rate(group: Mapping[str, Any]) -> float:
    """The rate of a group, before a scheduler changes it."""
    return float(group.get("initial_lr", group["lr"]))


def _scheduled(scheduler: Any, settings: Mapping[str, Any], scratch: Scratch) -> dict[str, Any]:
    """The settings of a scheduler: a file with a factor for each epoch, or those of a plateau."""
    import torch

    kind = type(scheduler).__name__
    for name in ("schedule", "warmup", "plateau_factor", "plateau_patience"):
        if settings.get(name) is not None:
            raise Refused(f"{name}: the scheduler says how the rate changes; leave one of them out")
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        fixed = {"threshold": 1e-4, "threshold_mode": "rel", "cooldown": 0}
        for name, value in fixed.items():
            if getattr(scheduler, name) != value:
                raise Refused(
                    f"scheduler: {name}={getattr(scheduler, name)!r} is not what weft has: give "
                    f"{name}={value!r}"
                )
        if any(scheduler.min_lrs):
            raise Refused("scheduler: weft has no least rate: give min_lr=0")
        select = {"select": "loss"} if scheduler.mode == "min" and settings.get("select") is None else {}
        return {
            "schedule": "plateau",
            "plateau_factor": scheduler.factor,
            "plateau_patience": scheduler.patience,
        } | select
    scheduler, epochs = copy.deepcopy(scheduler), settings.get("epochs")
    groups, factors = scheduler.optimizer.param_groups, []
    others = [{k: v for k, v in group.items() if k in ("momentum", "betas")} for group in groups]
    for _ in range(int(_program.flags_of("train")["epochs"]["default"] if epochs is None else epochs)):
        now = [float(group["lr"]) / _rate(group) for group in groups if _rate(group)] or [1.0]
        if max(now) - min(now) > 1e-9 * max(now):
            raise Refused(
                f"scheduler: {kind} changes the groups' rates by different factors; give the same for all"
            )
        if others != [{k: group[k] for k in other} for group, other in zip(groups, others)]:
            raise Refused(f"scheduler: {kind} changes the momentum, too: give cycle_momentum=False")
        factors.append(now[0])
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that the optimizer has made no step
                scheduler.step()
        except TypeError:
            raise Refused(
                f"scheduler: the step of {kind} takes something: weft has ReduceLROnPlateau, and schedulers "
                "of epochs"
            ) from None
    file = scratch.path / "schedule.txt"
    with scratch.writing("the schedule"):
        file.write_text("".join(f"{factor!r}\n" for factor in factors))
    return {"schedule": file}


def _said(kind: str, name: str) -> str:
    """What to give for an option of an optimizer."""
    if name == "betas":
        return "give (0.9, β₂), the same in all groups"
    if name in _OPTIONS[kind]:
        return "give the same in all groups"
    return f"give {name}={_FIXED[name]!r}" if name in _FIXED else "leave it out"


def with_weights(module: torch.nn.Module, directory: Path) -> torch.nn.Module:
    """A copy of a module with the weights of the run in a directory."""
    import torch

    from ._copies import copied

    made: torch.nn.Module = copied(module)
    class_name = type(module).__name__
    own = made.state_dict()
    with reading(directory / "program.json"):
        program = json.loads((directory / "program.json").read_text(encoding="utf-8"))
        read = {parameter["name"] for parameter in program["parameters"]}
    # Beside those of the module there are weft's own, as of standardised features.
    weights = {
        name: value
        for name, value in _weights.read(directory / "model.safetensors").items()
        if name in read or name in own
    }
    for name, value in weights.items():
        if name in own and torch.nn.parameter.is_lazy(own[name]):
            continue
        if name not in own or tuple(own[name].shape) != value.shape:
            there = f"as {tuple(own[name].shape)}" if name in own else "not at all"
            raise Refused(
                f"module: {directory} has {name} as {value.shape}, and the {class_name} that was given has "
                f"it {there}; give one that is made like the one that was trained"
            )
    for name, parameter in made.named_parameters():
        if name not in weights:
            raise Refused(
                f"module: the {class_name} that was given has {name} {tuple(parameter.shape)}, and "
                f"{directory} has not; give one that is made like the one that was trained"
            )
    made.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()}, strict=False)
    return made
