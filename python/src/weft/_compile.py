"""What compiles a module, without PyTorch until it is called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from . import _program
from ._errors import Refused
from ._graph import Data

if TYPE_CHECKING:
    from torch import nn

    from ._net import Net

#: The settings of weft.train that a compiled module has. Others are of weft's loop, or change by its epochs.
SETTINGS = (
    "parallel partitions partition balance prefetch keep_halo halo aggregation_chunks aggregation_order "
    "chunks chunk_method device threads precision recompute keep_edge_states seed comm_timeout offload "
    "memory_limit graph_cache partition_by"
).split()


def compile(module: nn.Module, data: Data | None = None, **settings: Any) -> Net:  # noqa: A001
    """A module of PyTorch that computes a module on divided graphs.

    It has the parameters and buffers of the module, by their names: whatever changes these changes both. Its
    call takes part in PyTorch's autograd, so that any loss and any optimizer of PyTorch train it.
    :func:`train` has a training loop; with compile the loop is the caller's.

    Args:
        module: its forward takes ``(x, edge_index)``, and may take ``edge_attr`` or ``edge_weight``. It
            returns a tensor, or a tuple or dict of tensors, with a row for each vertex or edge, or one for
            the graph. Over several vertex types it takes the dicts ``x_dict``, ``edge_index_dict`` …, and may
            return rows of several types. It is traced here, or at the first call if that gives what the graph
            lacks.
        data: the graph, as for :func:`train`. It needs no labels and no split. None: each call gives a graph,
            as ``net(x, edge_index)``.
        settings: those of :func:`train` that say how passes are computed:

            - ``parallel="graph=4"``: the workers along each axis, and with ``samples=2`` so many groups of
              these, which hold the same graph and take other samples; ``threads`` of each worker;
              ``device="cuda"``; ``comm_timeout="5m"``, the longest wait for another worker.
            - ``precision="bf16"``: features, activations, their gradients and messages.
              ``precision="tf32x3"``: on a GPU products of float32 are made by tensor cores.
              ``recompute="blocks"``: the backward pass computes values again that it does not keep.
              ``keep_edge_states=2``: of states of edges that pass through layers every second is kept.
            - ``memory_limit="4GiB"`` refuses passes that would exceed it. With ``partitions=8, offload=DIR``
              matrices of partitions that are not at work rest on disk, as far as the limit needs it;
              ``offload=True`` names the folder of temporary files, or below a card the host's memory.
            - graph axis: ``partition``, how vertices are divided, and ``balance``, what each part gets an
              equal share of; ``halo``, what workers send each other in sums and means; ``prefetch``, messages
              that are received ahead; ``keep_halo=True`` keeps what they sent for the backward pass.
            - tensor axis: ``aggregation_chunks``, in which an aggregation receives rows while it computes.
            - pipeline axis: it is exact unless ``chunks`` says more than one chunk for each partition;
              ``chunk_method``, how vertices are divided into these.
            - ``aggregation_order``: whether layers transform or aggregate first.
            - ``seed``: of the division into partitions and chunks. Dropout has PyTorch's generator.
            - ``graph_cache="64MiB"``: the memory of divided graphs that calls have given. Those that were
              used least recently go first. ``partition_by="pos"``: the tensor of a call by which vertices are
              divided: floats are their positions, and whole numbers their partitions.

            ``weft train --help-all`` has their values.

    Raises:
        TypeError: a keyword is unknown, or is of :func:`train` alone.
        Refused: the module, the graph or a setting makes no sense.
        Failed: the work failed.

    Example:
        >>> net = weft.compile(MyNet(128, 40), graph, parallel="graph=4")        # doctest: +SKIP
        >>> optimizer = torch.optim.SGD(net.parameters(), lr=.1)                # doctest: +SKIP
        >>> F.cross_entropy(net()[train], y[train]).backward()                  # doctest: +SKIP
        >>> optimizer.step()                                                    # doctest: +SKIP
    """
    _check(settings)
    from ._net import net_of

    return net_of(module, data, settings)


#: What describes a graph that is not there yet to a plan of a loop.
COUNTS = ("vertices", "edges", "features", "features_of_edges", "halo_rows", "graphs")


def planned(
    module: nn.Module,
    data: Data | None,
    passes: int,
    inputs: str | Iterable[str] | None,
    gradients: str | Iterable[str] | None,
    settings: dict[str, Any],
) -> dict[str, Any]:
    """What :func:`weft.plan` says of a loop around a module, or a net. data is None: settings have its
    counts."""
    counts = None
    if data is None:
        counts = {name: settings.pop(name) for name in COUNTS if name in settings}
        for name, count in counts.items():
            if isinstance(count, bool) or not isinstance(count, (int, float)):
                raise TypeError(f"plan: {name}: is {count!r}: give a number")
        counts |= {name: int(count) for name, count in counts.items() if count == int(count)}
        if missing := [name for name in COUNTS[:2] if name not in counts]:
            raise TypeError(
                f"plan: {missing[0]}: give the graph of the loop, or its counts: {', '.join(COUNTS)}"
            )
    _check(settings)
    from . import _planned

    return _planned.planned(module, data, counts, passes, inputs, gradients, settings)


def _check(settings: Mapping[str, Any]) -> None:
    for name in settings:
        if name not in SETTINGS:
            _program.check_keywords("train", [name])
            raise TypeError(
                f"unknown keyword {name}: it is of weft.train; compile takes {', '.join(SETTINGS)}"
            )
    if find_spec("torch.export") is None:
        raise Refused(
            "module: it is read by torch.export of PyTorch 2.6 and later: install PyTorch 2.6 to 2.15"
        )
