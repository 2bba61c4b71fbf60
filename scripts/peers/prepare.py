"""What the driver needs beforehand, run by the Python of the PyG environment.

prepare.py weights MODEL STORE FILE    initial weights as PyG draws them (seed 0), a safetensors file with PyG's names; of a module of
                                       own.py the program, too, beside it
prepare.py github EDGES ARCHIVE        Map of GitHub has neither features nor labels: an archive with both, for `weft import npz`"""

import sys
from pathlib import Path

import numpy as np

CLASSES = 16


def weights(model: str, store: str, file: str) -> None:
    import torch
    from safetensors.torch import save_file

    import graphs
    from models import MODELS, OWN
    from peer_pyg import network

    torch.manual_seed(0)
    features, classes = graphs.shape(Path(store))
    net = network((MODELS | OWN)[model], features, classes)
    save_file(net.state_dict(), file)
    if model in OWN:
        sys.path.insert(0, str(Path(__file__).parents[2] / "python" / "src"))
        from weft._trace import trace

        Path(file).with_suffix(".json").write_text(trace(net, features=features).text)


def github(edges: str, archive: str) -> None:
    """Labels are drawn at random, with seed 0. The column of zeros is replaced by the import (--random-features)."""
    with np.load(edges) as source:
        vertices = int(source["num_nodes"])
        labels = np.random.default_rng(0).integers(CLASSES, size=vertices)
        np.savez(archive, edges=source["edges"], node_features=np.zeros((vertices, 1), np.float32), node_labels=labels)


if __name__ == "__main__":
    {"weights": weights, "github": github}[sys.argv[1]](*sys.argv[2:])
