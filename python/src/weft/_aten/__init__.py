"""ATen's operations in those of a program: functions of operands by the names of ATen's schema.

Each file has those of one kind, and enters them into the table of `_lowering` by `lowers`; `Lowering` calls
them node by node. The lowering of a module needs all of them, so `_trace` imports this package.
"""

from . import columns, elementwise, gathers, joins, norms, products, random, reductions, scatters, sizes

__all__ = [
    "columns",
    "elementwise",
    "gathers",
    "joins",
    "norms",
    "products",
    "random",
    "reductions",
    "scatters",
    "sizes",
]
