"""weft trains graph neural networks on whole graphs.

A graph in memory is trained on in three lines:

    import weft
    run = weft.train(weft.Graph(edge_index=e, x=x, y=y, split="random:60/20/20"), model="gcn")
    print(run.summary["test"], run.predictions)

``docs/python.md`` says more. The work is done by a program, which this package starts: it writes arrays, and
reads what the program leaves.
"""

from ._errors import Failed, Interrupted, Refused
from ._estimators import NodeClassifier, NodeRegressor
from ._graph import Data, Graph
from ._run import History, Report, Run, Runs
from ._train import Callback, compare, explain, load, plan, runs, sweep, train

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
    "compare",
    "explain",
    "load",
    "plan",
    "runs",
    "sweep",
    "train",
]
