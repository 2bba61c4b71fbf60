"""From a module of PyTorch to a program: a model as data, which the program of weft checks, compiles and
trains.

    program = trace(MyNet(128, 40), features=128)
    program.text, program.state        # JSON, and arrays by the names of module.state_dict()

torch.export writes down which operations of ATen a module's forward does on graphs of any size (`export`),
and `_lowering` turns them into a program's (`lowered`). Nothing here knows a layer of PyTorch Geometric: what
lies between two gathers and scatters along edge_index is an operation on rows. `tracing` has the steps in
their order.
"""

from .called import EDGES_OF_DGL, TYPES_OF_EDGES, Called, forward_of
from .checks import SMALL
from .layers import as_traced
from .lowered import lower
from .outputs import Outputs
from .program import Program, used
from .refusals import why
from .schema import GRAPHS, Constant, Given, Relation, Schema
from .tensors import tables_of
from .tracing import trace

__all__ = [
    "EDGES_OF_DGL",
    "GRAPHS",
    "SMALL",
    "TYPES_OF_EDGES",
    "Called",
    "Constant",
    "Given",
    "Outputs",
    "Program",
    "Relation",
    "Schema",
    "as_traced",
    "forward_of",
    "lower",
    "tables_of",
    "trace",
    "used",
    "why",
]
