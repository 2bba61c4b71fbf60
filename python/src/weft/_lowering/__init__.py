"""From a graph of ATen's operations to those of a program.

`Lowering` goes through the nodes that torch.export has written down, and knows of each value whether its rows
are vertices, edges or neither. `_aten` has a function for each operation that is not the same in both.
Lowering is one class in layers: what the sizes in a graph count (`sizes`), operands (`values`), views and
writing in place (`views`), rows of several sets (`sets`), and the nodes (`lowering`).
"""

from .lowering import Lowering
from .nodes import bounds, free_sizes, line_of, operands, times_of, writes_first
from .refused import DRAWS, DRAWS_NO_ROWS, KEEPS
from .table import lowers, named
from .views import ALIASES

__all__ = [
    "ALIASES",
    "DRAWS",
    "DRAWS_NO_ROWS",
    "KEEPS",
    "Lowering",
    "bounds",
    "free_sizes",
    "line_of",
    "lowers",
    "named",
    "operands",
    "times_of",
    "writes_first",
]
