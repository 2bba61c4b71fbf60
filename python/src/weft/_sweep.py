"""`weft.sweep`: trainings with many settings."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import _module, _program, _tables
from ._arguments import TAKEN, value_of, with_edge_labels
from ._bar import Bar
from ._errors import Interrupted, Refused
from ._graph import Data, graph_of
from ._graph import arguments as graph_arguments
from ._run import Run
from ._runs import Runs
from ._scratch import Scratch
from ._train import Callback, followed, functions


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
        grid: values by keyword, as ``{"lr": [.01, .005], "hidden": [16, 64]}``. Those of ``model`` may be
            modules, classes and functions that make them; the runs name each by its class and number, as
            ``Net-1``.
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
    calls = functions(callbacks)
    tried = {*(grid or {}), *(random or {}).get("settings", {})}
    if "resume" in settings:
        raise TypeError(
            "unknown keyword resume: with the out of an earlier sweep the same call goes on there"
        )
    _program.check_keywords("train", {*settings, *tried}, TAKEN)
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
    bar = Bar(progress, {**settings, "config": config, "seeds": seeds}, None, *runs)
    bar.name = "sweep"
    if "epochs" in tried:
        bar.total = None
    data, settings, files = _tables.placed(data, settings)
    graph = graph_of(data)
    settings = dict(with_edge_labels(graph, settings))
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
        source = graph_arguments(data, graph)
        own = {
            name: value for name, value in file["settings"].items() if name != "loss" or not callable(value)
        }
        base = file["settings"]
        modules: dict[str, Any] = {}
        made_of = lists.get("model", ())
        ask = any(map(callable, (*made_of, base.get("model"), base.get("loss"))))
        counts = _module.counts_of(base, source) if ask else {}
        file["settings"], model = _module.in_place(base, source, scratch, counts=counts, progress=progress)
        for k, value in enumerate(lists.get("model", ())):
            if callable(value):
                name = f"{_module.name_of(value)}-{k + 1}"
                made, modules[name] = _module.in_place(
                    own | {"model": value}, source, scratch, name, counts, progress
                )
                lists["model"][k] = {
                    setting.replace("_", "-"): _written(value_of(setting, choice, scratch))
                    for setting, choice in made.items()
                    if choice is not own.get(setting)
                }
        tables = _module.of_tables(file["settings"])  # the program imports once, for all runs
        file["settings"] = {
            name.replace("_", "-"): _written(value_of(name, value, scratch))
            for name, value in file["settings"].items()
            if name not in tables
        }
        path = scratch.path / "sweep.yaml"
        with scratch.writing("the sweep"):
            path.write_text(
                json.dumps(file, default=_written, ensure_ascii=False), encoding="utf-8"
            )  # JSON is YAML
        arguments = ["sweep", str(path), *source, f"--out={out}", f"--jobs={jobs}", "--json"]
        arguments += [flag for name in tables for flag in _program.flags(name, base[name])]
        if max_time is not None:
            arguments.append(f"--max-time={max_time}")
        try:
            text = followed(arguments, bar, calls)
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
