"""weft trains graph neural networks on whole graphs.

A graph in memory is trained on in three lines:

    import weft
    run = weft.train(weft.Graph(edge_index=e, x=x, y=y, split="random:60/20/20"), model="gcn")
    print(run.summary["test"], run.predictions)

Functions take as ``Data``, a graph: a ``Graph``, the path of a file, folder or store or the name of a
published graph, ``Data`` or ``HeteroData`` of PyTorch Geometric or a list of ``Data``, or a ``DGLGraph``. A
``Callback`` is called with each epoch, a dict, and ends the run by True.

``python.md`` says more. ``settings.md``, ``tables.md``, ``formats.md`` and ``run-files.md`` explain settings,
tables, formats of graphs and the files of a run. They are in ``share/doc/weft`` of the environment
(``sys.prefix``), and in ``docs`` of the sources. The work is done by a
program, which this package starts: it writes arrays, and reads what the program leaves.
"""

from importlib.metadata import PackageNotFoundError, version

from . import _program
from ._compile import compile  # noqa: A004
from ._errors import Failed, Interrupted, Refused
from ._estimators import NodeClassifier, NodeRegressor
from ._graph import Data, Graph
from ._opened import compare, load, runs
from ._plan import explain, inspect, plan, show_plan
from ._predicted import History, Table
from ._report import Report
from ._run import Run
from ._runs import Runs
from ._sweep import sweep
from ._train import Callback, train

try:
    __version__ = version("weft")
except PackageNotFoundError:  # the sources, which nobody has installed
    __version__ = "0.0.0"

_program.end_with_launcher()

__all__ = [
    "Callback",
    "Data",
    "Failed",
    "Graph",
    "History",
    "Interrupted",
    "NodeClassifier",
    "NodeRegressor",
    "Refused",
    "Report",
    "Run",
    "Runs",
    "Table",
    "compare",
    "compile",
    "explain",
    "inspect",
    "load",
    "plan",
    "runs",
    "show_plan",
    "sweep",
    "train",
]
