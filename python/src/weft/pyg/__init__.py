"""A run's model in PyTorch Geometric (PyG), with the run's weights.

    import weft

    run = weft.train(data, model="gat", heads=4)
    model = run.to_pyg()
    logits = model(data.x, data.edge_index)         # run.logits, but for rounding

Needs torch and torch_geometric.
"""

try:
    import torch  # noqa: F401
    import torch_geometric.nn  # noqa: F401
except ImportError as e:
    raise ImportError(
        f"to_pyg: {e.name} is not installed; pip install torch torch_geometric", name=e.name
    ) from None

from .convert import to_pyg
from .kinds import KINDS as KINDS
from .layers import Both as Both
from .layers import Layers as Layers
from .layers import Net as Net
from .model import Model
from .networks import GCNII as GCNII
from .networks import Blocks as Blocks
from .networks import Perceptron as Perceptron
from .networks import ResGCN as ResGCN
from .typed import TypedLayers as TypedLayers
from .typed import TypedRGCN as TypedRGCN

__all__ = ["Model", "to_pyg"]
