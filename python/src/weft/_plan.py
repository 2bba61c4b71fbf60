"""What is asked before a training: `weft.inspect` of the graph, `weft.show_plan` and `weft.plan` of time and
memory."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable
from typing import Any

from . import _compile, _module, _program, _tables
from ._arguments import TAKEN, arguments_of
from ._graph import Data, graph_of
from ._graph import arguments as graph_arguments
from ._scratch import Scratch


class _Text(str):
    """Text that is shown as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def inspect(data: Data, **tables: Any) -> dict[str, Any]:
    """Counts a graph: the object of ``weft inspect --json``.

    Args:
        data: as for :func:`train`.
        tables: how a list of edges is read, as ``source="payer"``, ``vertices_from="customers.csv"``,
            ``label="kind"``.

    Returns:
        ``vertices``, ``edges``, ``features`` and ``edge_features`` (columns), ``classes``, ``class_counts``
        and, where classes have names, ``class_names``; of values to predict ``value_columns``; of several
        types ``types`` and ``relations``, each with its own.

    Example:
        >>> of = weft.inspect("payments.csv", source="payer", target="payee")   # doctest: +SKIP
        >>> net = Net(of["features"], of["classes"])                          # doctest: +SKIP
    """
    _program.check_keywords("train", tables, TAKEN)
    for name in tables.keys() - set(_module.of_tables(tables)):
        raise TypeError(
            f"unknown keyword {name}: inspect counts a graph, and takes how tables are read; give it to "
            "weft.train"
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
    _program.check_keywords("train", settings, TAKEN)
    data, settings, files = _tables.placed(data, settings)
    scratch = Scratch()
    try:
        _, arguments, _ = arguments_of("train", data, settings, scratch)
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
            ``features_of_edges`` and ``halo_rows``, as flags of ``weft plan``. Of a net without a graph they
            are those of the largest one that calls give, with as many ``graphs`` if it is a batch; its edges
            have the direction of ``edge_index``, and columns are those of the last call unless counts say
            other ones. ``shared_bytes`` are of calls with that graph alone: memory for graphs of other sizes
            stays for some calls.
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
    if any(option is not None for option in (passes, inputs, gradients)) or _is_net(settings.get("model")):
        if workers is not None:
            raise TypeError("plan: workers: of a loop they are those of parallel, as graph=4: leave it out")
        passes = 1 if passes is None else passes
        return _compile.planned(settings.pop("model", None), data, passes, inputs, gradients, settings)
    _program.check_keywords("plan", settings, ("help", "json", "workers"))
    data, settings, files = _tables.placed(data, settings)
    scratch = Scratch()
    try:
        _, arguments, _ = arguments_of("plan", data, settings, scratch)
        arguments += [f"--workers={4 if workers is None else workers}", "--json"]
        return json.loads(_program.run(arguments))  # type: ignore[no-any-return]
    finally:
        scratch.close()
