"""Trainings: `weft.train`, and how each epoch is told."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, overload

from . import _program, _tables
from ._arguments import TAKEN, arguments_of
from ._bar import STATE, Bar
from ._errors import Refused
from ._graph import Data
from ._run import Run
from ._runs import Runs
from ._scratch import Scratch

#: What is called with each epoch: the object of a line of metrics.jsonl. True ends the run after the next
#: one.
Callback = Callable[[dict[str, Any]], Any]


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
            ``DataFrame`` of pandas or Polars, a table of Arrow or DuckDB; or a dict of such tables and paths
            by relation. Each call writes these anew, for as long as its run lives: for several calls make one
            ``graph = weft.Graph.of(data)``. None: that of the run that is continued, unless it was in memory.
        out: directory of the run, new or empty; None: a new folder under ``runs/``.
        progress: whether tqdm shows the epochs in a notebook, or where standard error is a terminal, and
            lines say there that a module is read, if that takes long.
        callbacks: functions that are called with each epoch, a dict with ``epoch``, ``loss``, ``lr``,
            ``seconds`` and, if evaluated, ``train``, ``val``, ``test`` and ``val_loss``. The run waits for
            them. One that returns True, also as NumPy and PyTorch have it, ends the run after the next epoch,
            with its results so far.
        resume: a run or its directory, which continues from its last checkpoint; ``"auto"``: the run in
            ``out``, if there is one. Settings that are not given are those of the run.
        settings: the flags of ``weft train`` with ``_`` for ``-``, as ``model="gcn"``, ``hidden=128``,
            ``weight_decay=5e-4``, ``device="cuda"``. ``model`` may also be a module of PyTorch whose forward
            takes ``(x, edge_index)``, and ``edge_attr`` or ``edge_weight`` besides, or a class or function
            that is called with the graph's (features, classes) and returns one: it is traced, and stays as it
            is; :meth:`Run.module` gives it back with the trained weights. ``loss`` may also be a function of
            (logits, labels), or a loss of ``torch.nn``; ``optimizer`` and ``scheduler`` objects of
            ``torch.optim``. To list them, type ``weft train --help-all`` in a shell, or ``!weft train
            --help-all`` in a notebook. None is the default. ``parallel`` may be a dict, ``link_split`` three
            numbers, ``link_relation`` a relation or a list of them, ``class_weights`` a list of numbers,
            ``init`` a run or a dict of arrays, ``validate`` a graph.

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
    _program.check_keywords("train", settings, TAKEN)
    _program.warn_if_launched(
        'trains a run of its own: start Python without it, with parallel={"graph": N}, or start the program: '
        "mpirun -n N weft train STORE --parallel graph=N"
    )
    calls = functions(callbacks)
    resumed = _resumed(out, resume, settings)
    data, settings, files = _tables.placed(data, settings)
    scratch = Scratch()
    try:
        graph, arguments, model = arguments_of("train", data, settings, scratch, out, resumed, progress)
        arguments.append("--json")
        text = followed(arguments, Bar(progress, settings, resumed), calls)
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


def followed(arguments: list[str], bar: Bar, calls: list[Callback]) -> str:
    """Runs the program, and shows and tells each epoch that it prints."""

    def told(epoch: dict[str, Any]) -> bool:
        bar.show(epoch)
        answers = [call(epoch) for call in calls]  # each is called, whatever those before it answer
        return any(map(_is_true, answers))

    with bar:
        return _program.run([*arguments, "--follow"], told, answers=bool(calls))


def functions(callbacks: Any) -> list[Callback]:
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
    if resume == "auto" and out is not None and not several and (Path(out) / STATE).exists():
        return out
    return resume
