"""Modules over DGL: the graph that their forward is called with, and their operations written down.

`_trace` calls graph_of around forward, and exported in the place of torch.export.
"""

from .calls import graph_of
from .export import exported

__all__ = ["exported", "graph_of"]
