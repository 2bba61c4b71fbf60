"""Trainings, and what is asked about them before and after."""

from __future__ import annotations

import datetime
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, overload

from . import _compile, _module, _program, _progress, _tables, _weights
from ._arrays import array
from ._errors import Interrupted, Refused, reading
from ._graph import Data, Graph, argument, graph_of
from ._graph import arguments as graph_arguments
from ._run import Run, Runs
from ._scratch import Scratch

#: What is called with each epoch: the object of a line of metrics.jsonl. True ends the run after the next one.
Callback = Callable[[dict[str, Any]], Any]

# Flags of the command for which Python has other means.
_TAKEN = ("help", "out", "resume", "json", "follow", "show_plan")


# The file of a run that says where it stands; it is there as soon as the run is.
_STATE = "state.json"


@overload
def train(
    data: Data,
    *,
    out: Any = None,
    progress: bool = True,
    callbacks: Any = (),
    resume: Any = None,
    seeds: int,
    **settings: Any,
) -> Runs: ...
@overload
def train(
    data: Data,
    *,
    out: Any = None,
    progress: bool = True,
    callbacks: Any = (),
    resume: Any = None,
    splits: str,
    **settings: Any,
) -> Runs: ...
@overload
def train(
    data: Data,
    *,
    out: Any = None,
    progress: bool = True,
    callbacks: Any = (),
    resume: Any = None,
    **settings: Any,
) -> Run: ...
def train(
    data: Data,
    *,
    out: str | os.PathLike[str] | None = None,
    progress: bool = True,
    callbacks: Callback | Iterable[Callback] = (),
    resume: str | os.PathLike[str] | Run | None = None,
    **settings: Any,
) -> Run | Runs:
    """Trains a model on a whole graph.

    Args:
        data: the graph: a :class:`weft.Graph`, the path of a file, folder or store or the name of a published
            graph, ``Data`` or ``HeteroData`` of PyTorch Geometric, a ``DGLGraph``, or a table of edges: a
            ``DataFrame`` of pandas or Polars, a table of Arrow or DuckDB; or a dict of such tables and paths by
            relation. Each call writes these anew, for as long as its run lives: for several calls make one
            ``graph = weft.Graph.of(data)``.
            None: that of the run that is continued, unless it was in memory.
        out: directory of the run, new or empty; None: a new folder under ``runs/``.
        progress: whether tqdm shows the epochs in a notebook, or where standard error is a terminal, and lines
            say there that a module is read, if that takes long.
        callbacks: functions that are called with each epoch, a dict with ``epoch``, ``loss``, ``lr``,
            ``seconds`` and, if evaluated, ``train``, ``val``, ``test`` and ``val_loss``. The run waits for
            them. One that returns True, also as NumPy and PyTorch have it, ends the run after the next epoch,
            with its results so far.
        resume: a run or its directory, which continues from its last checkpoint; ``"auto"``: the run in
            ``out``, if there is one. Settings that are not given are those of the run.
        settings: the flags of ``weft train`` with ``_`` for ``-``, as ``model="gcn"``, ``hidden=128``,
            ``weight_decay=5e-4``, ``device="cuda"``. ``model`` may also be a module of PyTorch whose forward takes
            ``(x, edge_index)``, and ``edge_attr`` or ``edge_weight`` besides, or a class or function that is called
            with the graph's (features, classes) and returns one: it is traced, and stays as it is;
            :meth:`Run.module` gives it back with the trained weights. ``loss`` may also be a function of
            (logits, labels), or a loss of ``torch.nn``, and ``regularization`` one of the module that returns
            what is added to the loss; ``optimizer`` and ``scheduler`` objects of ``torch.optim``. To list them, type ``weft train --help-all`` in a shell, or
            ``!weft train --help-all`` in a notebook. None is the default. ``parallel`` may be a dict, ``link_split`` three numbers, ``link_relation`` a
            relation or a list of them, ``class_weights`` a list of numbers, ``init`` a run or a dict of
            arrays, ``validate`` a graph.

    Returns:
        The :class:`Run`. With ``seeds`` or ``splits`` the :class:`Runs`, whose ``summary`` has means and
        deviations.

    Raises:
        TypeError: a keyword is unknown; the nearest is named.
        Refused: a setting or the graph makes no sense.
        Failed: the run failed, as where the loss is no number any more.
        Interrupted: a signal from elsewhere ended the run. It has results, as has one that
            ``KeyboardInterrupt`` ended, and ``resume`` continues both. A run whose ``max_time`` is over is
            returned.

    Example:
        >>> g = weft.Graph(edge_index=e, x=x, y=y, split="random:60/20/20")   # doctest: +SKIP
        >>> run = weft.train(g, model="gcn", hidden=16)                     # doctest: +SKIP
        >>> run.summary["test"]                                             # doctest: +SKIP
        0.815
    """
    _program.check_keywords("train", settings, _TAKEN)
    _program.warn_if_launched(
        'trains a run of its own: start Python without it, with parallel={"graph": N}, or start the program: '
        "mpirun -n N weft train STORE --parallel graph=N"
    )
    calls = _functions(callbacks)
    resumed = _resumed(out, resume, settings)
    data, settings, files = _tables.placed(data, settings)
    scratch = Scratch()
    try:
        graph, arguments, model = _arguments("train", data, settings, scratch, out, resumed, progress)
        arguments.append("--json")
        text = _followed(arguments, _Bar(progress, settings, resumed), calls)
        results = json.loads(text.splitlines()[-1])
    except BaseException:
        graph = None  # else the traceback keeps what was written of it
        scratch.kept.clear()
        raise
    finally:
        scratch.close()
    if model is None and isinstance(resume, Run):
        model = resume._module
    if "runs" in results:
        return Runs((Run(path, graph, model, files) for path in results["runs"]), results)
    return Run(results["run_dir"], graph, model, files)


def _followed(arguments: list[str], bar: _Bar, calls: list[Callback]) -> str:
    """Runs the program, and shows and tells each epoch that it prints."""

    def told(epoch: dict[str, Any]) -> bool:
        bar.show(epoch)
        answers = [call(epoch) for call in calls]  # each is called, whatever those before it answer
        return any(map(_is_true, answers))

    with bar:
        return _program.run([*arguments, "--follow"], told, answers=bool(calls))


def _functions(callbacks: Any) -> list[Callback]:
    calls = (
        [callbacks]
        if callable(callbacks)
        else list(callbacks)
        if isinstance(callbacks, Iterable)
        else [callbacks]
    )
    for call in calls:
        if not callable(call):
            raise TypeError(
                f"callbacks: {call!r} is no function: give a function of an epoch, or a list of them"
            )
    return calls


def _is_true(answer: Any) -> bool:
    """Whether an answer is True, or a scalar of NumPy or PyTorch that is."""
    if getattr(answer, "ndim", None) == 0:
        answer = answer.item()
    return answer is True


def _resumed(out: Any, resume: Any, settings: Mapping[str, Any]) -> Any:
    """What ``--resume`` is given: the directory of a run that is there, which then has its settings."""
    if isinstance(resume, Run):
        return resume.directory
    if not (resume is None or isinstance(resume, (str, os.PathLike))):
        raise TypeError(f'resume: {resume!r} is no run: give a weft.Run, its directory, or "auto"')
    if resume == "auto" and out is None:
        raise Refused(
            'resume="auto": continues the run in out, or begins it there; give out, or a run as resume'
        )
    several = any(settings.get(name) is not None for name in ("seeds", "splits", "config"))
    if resume == "auto" and out is not None and not several and (Path(out) / _STATE).exists():
        return out
    return resume


def _arguments(
    command: str,
    data: Data,
    settings: Mapping[str, Any],
    scratch: Scratch,
    out: Any = None,
    resumed: Any = None,
    progress: bool = True,
) -> tuple[Graph | None, list[str], Any]:
    """The graph in memory, if it is one, the command's arguments, and the module that is trained, if it is one."""
    arguments, graph = [command], None
    continues = resumed is not None and resumed != "auto"
    if data is not None or not (continues or command == "plan"):
        graph = graph_of(data)
        if graph is not None and graph.undivided and settings.get("task") == "link":
            raise Refused(
                'edge_label_index: is that of one part of a split: give the three, as weft.train([train, val, test], task="link")'
            )
        arguments += graph_arguments(data, graph)
        scratch.kept.append(graph)
        settings = settings if continues else _of_edges(graph, settings)
    given = arguments[1:]
    settings, module = _module.in_place(settings, given, scratch, progress=progress)
    if out is not None and not (continues and os.path.realpath(out) == os.path.realpath(resumed)):
        arguments.append(_program.flag("out", out))
    if resumed is not None:
        arguments.append(_program.flag("resume", resumed))
    for name, value in settings.items():
        # The weights that a run began with are in its checkpoint.
        if name == "offload":
            value = _program.offload(value, settings.get("device"))
        if value is not None and not (continues and name == "init"):
            arguments += _program.flags(name, _value(name, value, scratch))
    return graph, arguments, module


def _of_edges(graph: Graph | None, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings, which name the labels of the edges of a graph in memory where the task is of these: where no
    task is given, of a graph that has no other labels."""
    if graph is not None and graph.learns_edges and all(settings.get(name) is None for name in ("task", "config")):
        settings = {**settings, "task": "edge"}
    if graph is None or settings.get("task") != "edge" or settings.get("edge_label") is not None:
        return settings
    if graph.labelled is None and graph.labels_parallel:
        raise Refused(
            "edge_label_index: names an edge twice, or one that edge_index has several times, so that it is not known which of these has the label: give labels of all edges, in the order of edge_index, as edge_label alone, with masks"
        )
    if graph.labelled is None and graph.undivided:
        raise Refused(
            'edge_label_index: has edges that edge_index lacks, and with task="edge" all edges pass messages: give the labels of edge_index as edge_label alone'
        )
    if graph.labelled is None and graph.of_links:
        raise Refused(
            'task="edge": the edges to predict are those of a split of links, which pass no messages, as RandomLinkSplit leaves them: learn them with task="link", or give labels of edge_index as edge_label, with masks'
        )
    if graph.labelled is None:
        raise Refused('task="edge": the edges of the graph have no labels: give them as edge_y')
    return {**settings, "edge_label": "edge_y"}


def _value(name: str, value: Any, scratch: Scratch) -> Any:
    """What a flag is given for what Python's users write."""
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
            _weights.write(path, value)
            return path
    if name == "parallel":
        return _program.axes(value)
    if name == "class_weights" and not isinstance(value, (str, os.PathLike)):
        path = scratch.path / "class_weights.txt"
        weights = array(value, name)
        if weights.ndim != 1 or weights.dtype.kind not in "biuf":
            raise Refused("class_weights: give a number for each class in their order, or balanced")
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
                f"link_relation: {value!r} is no relation: give (source type, name, target type), or a list of them"
            )
        return ";".join(",".join(relation) for relation in relations)
    if isinstance(value, datetime.timedelta):
        return f"{value.total_seconds()}s"
    if name == "link_split" and isinstance(value, Sequence) and not isinstance(value, str):
        return "/".join(map(str, value))
    return _program.listed(value)


class _Bar:
    """The epochs on a bar of tqdm, if it is there and wanted. It is shown with the first epoch.

    Its length is the product of the number of epochs, that of seeds, and others; None: it is not known.
    """

    def __init__(self, wanted: bool, settings: Mapping[str, Any], resumed: Any = None, *others: Any):
        self.wanted = wanted
        self.bar: Any = None
        base = {name: _program.flags_of("train")[name]["default"] for name in ("model", "epochs")}
        state = Path(resumed or "") / _STATE
        with reading(state):
            if resumed is not None and state.exists():
                base = json.loads(state.read_text(encoding="utf-8"))["settings"]
            named = (settings.get("model"), settings.get("config"), base["model"])
            self.name = _module.name_of(next(of for of in named if of is not None))
            epochs = settings.get("epochs")
            if epochs is None and settings.get("config") is None:
                epochs = int(base["epochs"])
        counts = (epochs, settings.get("seeds") or 1, *others)
        known = all(isinstance(count, Integral) for count in counts)
        self.total = math.prod(counts) if known else None

    def show(self, epoch: dict[str, Any]) -> None:
        if self.bar is None and self.wanted:
            self.begin(epoch["epoch"] - 1)
        if self.bar is None:
            return
        values = [
            f"{name} {epoch[name]:.4f}" for name in ("loss", "val", "test") if epoch.get(name) is not None
        ]
        self.bar.set_postfix_str("  ".join(values), refresh=False)
        self.bar.update(1)

    def begin(self, done: int) -> None:
        """Shows the bar of a run that continues after so many epochs, unless its text would go to a file."""
        if not _progress.is_watched():
            self.wanted = False
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that a notebook without ipywidgets has a bar of text
                from tqdm.auto import tqdm
        except ImportError:
            self.wanted = False
            return
        self.bar = tqdm(total=self.total, initial=done, unit="epoch", desc=self.name)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self.bar is None:
            return
        if kind is None:
            self.bar.total = self.bar.n  # fewer epochs are no failure, which a notebook shows in red
        self.bar.close()


def load(directory: str | os.PathLike[str]) -> Run:
    """Opens a run that has ended. What needs its graph takes that, as ``run.embeddings(data)``, if it was in
    memory.

    Raises:
        Refused: the directory has no results of a run.
    """
    return Run(directory)


def runs(directory: str | os.PathLike[str] = "runs") -> Runs:
    """The runs in a folder and below it that have results, the best by validation first."""
    listed = json.loads(_program.run(["runs", _program.operand(directory), "--json"]))
    found = []
    for path in (Path(one["run_dir"]) for one in listed["runs"]):
        if (path / "run.json").exists():
            try:
                found.append(Run(path))
            except Refused as error:
                warnings.warn(f"left out: {error}", stacklevel=2)
    return Runs(found, listed)


def compare(*runs: Run | str | os.PathLike[str]) -> Runs:
    """A table of runs, or of their directories: the settings that differ, and the results."""
    return Runs(run if isinstance(run, Run) else Run(run) for run in runs)


class _Text(str):
    """Text that is shown as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def inspect(data: Data, **tables: Any) -> dict[str, Any]:
    """Counts a graph: the object of ``weft inspect --json``.

    Args:
        data: as for :func:`train`.
        tables: how a list of edges is read, as ``source="payer"``, ``vertices_from="customers.csv"``, ``label="kind"``.

    Returns:
        ``vertices``, ``edges``, ``features`` and ``edge_features`` (columns), ``classes``, ``class_counts`` and, where
        classes have names, ``class_names``; of values to predict ``value_columns``; of several types ``types`` and
        ``relations``, each with its own.

    Example:
        >>> of = weft.inspect("payments.csv", source="payer", target="payee")   # doctest: +SKIP
        >>> net = Net(of["features"], of["classes"])                          # doctest: +SKIP
    """
    _program.check_keywords("train", tables, _TAKEN)
    for name in tables.keys() - set(_module.of_tables(tables)):
        raise TypeError(
            f"unknown keyword {name}: inspect counts a graph, and takes how tables are read; give it to weft.train"
        )
    data, tables, files = _tables.placed(data, tables)  # the files go with the last word of them
    graph = graph_of(data)
    return _module.counts_of(tables, graph_arguments(data, graph))


def explain(data: Data, **settings: Any) -> str:
    """The former name of :func:`show_plan`, until the next version. ``run.explain`` explains a prediction."""
    warnings.warn("weft.explain is now weft.show_plan", DeprecationWarning, stacklevel=2)
    return show_plan(data, **settings)


def show_plan(data: Data, **settings: Any) -> str:
    """What a training would do and need, without training: memory, order of work, bytes between workers.

    Arguments are those of :func:`train`.
    """
    _program.check_keywords("train", settings, _TAKEN)
    data, settings, files = _tables.placed(data, settings)
    scratch = Scratch()
    try:
        _, arguments, _ = _arguments("train", data, settings, scratch)
        return _Text(_program.run([*arguments, "--show-plan"]))
    finally:
        scratch.close()


def _is_net(model: Any) -> bool:
    """Whether it is a module that weft.compile made."""
    net = sys.modules.get(f"{__package__}._net")  # nobody has one before
    return net is not None and isinstance(model, net.Net)


def plan(
    data: Data | None = None,
    workers: int | None = None,
    passes: int | None = None,
    inputs: str | Iterable[str] | None = None,
    gradients: str | Iterable[str] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Predicts time, memory and bytes of an epoch on each mesh of workers: the object of ``weft plan
    --json``. With ``passes``, or a ``model`` that :func:`compile` made: the memory of a loop of your own.

    Args:
        data: as for :func:`train`. None: a graph that is not there yet, with so many ``vertices``, ``edges``
            (each in both directions), ``features`` and ``classes``. A loop has no classes, and may have
            ``features_of_edges`` and ``halo_rows``, as flags of ``weft plan``.
        workers: how many workers; None: 4. Of a loop ``parallel`` says it.
        passes: of a loop around ``weft.compile(model, data, …)``: how many live at a time, as two views have
            before one backward pass, or the steps of a rollout.
        inputs: what each pass is given in place of the graph's, by the names of a net's arguments: ``"x"``,
            ``"edges"``, ``"edge_weight"``, ``"edge_attr"``, or several. ``edges`` are counted as if all stay.
        gradients: those of them whose gradients are asked for, as ``"x"``.
        settings: flags of ``weft plan``, which has those of ``weft train`` and others, as ``link="1gbit"``.
            Of a loop: ``model``, and the settings of :func:`compile`; those of a net are its own.

    Returns:
        ``meshes``, the fastest first, each with ``parallel``, ``epoch_seconds``, ``peak_tensor_bytes``,
        ``sent_bytes``. Of a loop: ``peak_tensor_bytes`` and ``graph_bytes`` of each worker, ``kinds``, and in
        ``peaks`` how the peak is made up of them, ``communication``, ``sent_bytes`` of each worker and
        ``edge_columns`` of a pass,
        ``disk_bytes`` that rest at the peak, ``recompute`` and ``keep_edge_states`` as the limit needs them,
        and ``shared_bytes`` at most, of parameters, outputs and gradients that Python and the program share.
        Where each worker may be a process of a launcher, ``process_shared_bytes`` are these of each.

    Example:
        >>> weft.plan(graph, model=net, passes=2)["peak_tensor_bytes"]        # doctest: +SKIP
        >>> weft.plan(vertices=10e6, edges=200e6, features=128, classes=40)   # doctest: +SKIP
    """
    if any(of is not None for of in (passes, inputs, gradients)) or _is_net(settings.get("model")):
        if workers is not None:
            raise TypeError("plan: workers: of a loop they are those of parallel, as graph=4: leave it out")
        passes = 1 if passes is None else passes
        return _compile.planned(settings.pop("model", None), data, passes, inputs, gradients, settings)
    _program.check_keywords("plan", settings, ("help", "json", "workers"))
    data, settings, files = _tables.placed(data, settings)
    scratch = Scratch()
    try:
        _, arguments, _ = _arguments("plan", data, settings, scratch)
        return json.loads(_program.run([*arguments, f"--workers={4 if workers is None else workers}", "--json"]))  # type: ignore[no-any-return]
    finally:
        scratch.close()


def sweep(
    data: Data,
    grid: Mapping[str, Sequence[Any]] | None = None,
    random: Mapping[str, Any] | None = None,
    seeds: int | None = None,
    out: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    config: str | None = None,
    max_time: str | None = None,
    progress: bool = True,
    callbacks: Callback | Iterable[Callback] = (),
    **settings: Any,
) -> Runs:
    """Trains with many settings: every combination of a grid, or so many that are drawn.

    Args:
        data: as for :func:`train`.
        grid: values by keyword, as ``{"lr": [.01, .005], "hidden": [16, 64]}``. Those of ``model`` may be modules,
            classes and functions that make them; the runs name each by its class and number, as ``Net-1``.
        random: in place of it ``{"runs": 20, "seed": 1, "settings": {"lr": {"log-uniform": [1e-4, .1]}}}``,
            as in a file of ``weft sweep``.
        seeds: runs of each combination; None: one.
        out: folder of the runs; None: a new one under ``runs/``. With that of an earlier sweep it goes on
            there, if modules and their initial weights are the same: seed what makes them
            (``torch.manual_seed``).
        jobs: runs beside each other, which share the cores.
        config: file or name of settings of all runs.
        max_time: after which the sweep begins no other run, as ``"3h"``; the same call goes on.
        progress: whether tqdm shows the epochs of all runs, as for :func:`train`.
        callbacks: functions that are called with each epoch of each run, as for :func:`train`; its
            ``run_dir`` is the folder of the run. One that returns True ends that run, and the others go on.
        settings: of all runs, as for :func:`train`.

    Returns:
        The :class:`Runs`, the best by validation first.
    """
    calls = _functions(callbacks)
    tried = {*(grid or {}), *(random or {}).get("settings", {})}
    if "resume" in settings:
        raise TypeError("unknown keyword resume: with the out of an earlier sweep the same call goes on there")
    _program.check_keywords("train", {*settings, *tried}, _TAKEN)
    for name, values in (grid or {}).items():
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise TypeError(f"grid: {name}: {values!r} is no list: give the values to try")
    drawn = (random or {}).get("settings", {}).get("model", ())
    if callable(drawn) or not isinstance(drawn, str) and any(map(callable, drawn)):
        raise TypeError("random: model: draws names of models alone; give modules as grid={'model': […]}")
    if random is not None and "settings" not in random:
        raise TypeError("random: has no settings: give the values or ranges of each, by its keyword")
    out = Path(out) if out is not None else _new_folder()
    lists = {name: list(values) for name, values in (grid or {}).items()}
    runs = [len(values) for values in lists.values()] if random is None else [random.get("runs")]
    bar = _Bar(progress, {**settings, "config": config, "seeds": seeds}, None, *runs)
    bar.name = "sweep"
    if "epochs" in tried:
        bar.total = None
    data, settings, files = _tables.placed(data, settings)
    graph = graph_of(data)
    settings = dict(_of_edges(graph, settings))
    file: dict[str, Any] = {
        "settings": {name: value for name, value in settings.items() if value is not None}
    }
    if grid is not None:
        file["grid"] = {name.replace("_", "-"): values for name, values in lists.items()}
    if random is not None:
        file["random"] = {
            **random,
            "settings": {name.replace("_", "-"): value for name, value in random["settings"].items()},
        }
    if seeds is not None:
        file["seeds"] = seeds
    if config is not None:
        file["config"] = config
    scratch = Scratch()
    try:
        given = graph_arguments(data, graph)
        own = {name: value for name, value in file["settings"].items() if name != "loss" or not callable(value)}
        base = file["settings"]
        modules: dict[str, Any] = {}
        made_of = lists.get("model", ())
        ask = any(map(callable, (*made_of, base.get("model"), base.get("loss"))))
        counts = _module.counts_of(base, given) if ask else {}
        if made_of and all(map(callable, made_of)):  # each has its own
            base = {name: value for name, value in base.items() if name != "regularization"}
        file["settings"], model = _module.in_place(base, given, scratch, counts=counts, progress=progress)
        for k, value in enumerate(lists.get("model", ())):
            if callable(value):
                name = f"{_module.name_of(value)}-{k + 1}"
                made, modules[name] = _module.in_place(
                    own | {"model": value}, given, scratch, name, counts, progress
                )
                lists["model"][k] = {
                    setting.replace("_", "-"): _written(_value(setting, of, scratch))
                    for setting, of in made.items()
                    if of is not own.get(setting)
                }
        tables = _module.of_tables(file["settings"])  # the program imports once, for all runs
        file["settings"] = {
            name.replace("_", "-"): _written(_value(name, value, scratch))
            for name, value in file["settings"].items()
            if name not in tables
        }
        path = scratch.path / "sweep.yaml"
        path.write_text(json.dumps(file, default=_written, ensure_ascii=False), encoding="utf-8")  # JSON is YAML
        arguments = ["sweep", str(path), *given, f"--out={out}", f"--jobs={jobs}", "--json"]
        arguments += [flag for name in tables for flag in _program.flags(name, base[name])]
        if max_time is not None:
            arguments.append(f"--max-time={max_time}")
        try:
            text = _followed(arguments, bar, calls)
        except Interrupted as error:
            if not str(error).startswith("max_time "):
                raise
            text = _program.run(["runs", _program.operand(out), "--json"])
        told = json.loads(text.splitlines()[-1])
    finally:
        scratch.close()
    below = sorted(path.parent for path in Path(out).rglob("run.json"))
    order = {os.path.realpath(one["run_dir"]): k for k, one in enumerate(told["runs"]) if "run_dir" in one}
    below.sort(key=lambda path: order.get(os.path.realpath(path), len(order)))
    return Runs((Run(path, graph, modules.get(_module.class_of(path), model), files) for path in below), told)


def _written(value: Any) -> Any:
    """A value as JSON has it."""
    item = getattr(value, "item", None)
    if callable(item):
        return item()
    return str(value) if isinstance(value, (os.PathLike, datetime.timedelta)) else value


def _new_folder() -> Path:
    now = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    for number in range(1, 1000):
        path = Path("runs") / (f"{now}-sweep" + (f"-{number}" if number > 1 else ""))
        if not path.exists():
            return path
    raise Refused(f"{path}: is there; name another folder with out")
