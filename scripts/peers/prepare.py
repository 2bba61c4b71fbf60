"""What the driver needs beforehand, run by the Python of the PyG environment.

prepare.py weights MODEL STORE FILE    initial weights as PyG draws them (seed 0), a safetensors file with
                                       PyG's names; of a module of own.py the program, too, beside it
prepare.py github EDGES ARCHIVE        Map of GitHub has neither features nor labels: an archive with both,
                                       for `weft import npz`
prepare.py mesh ROWS COLUMNS ARCHIVE   likewise a grid on a torus: each point's ten nearest neighbours, with
                                       their displacements"""

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
    columns = graphs.columns(Path(store))
    net = network((MODELS | OWN)[model], columns)
    save_file(net.state_dict(), file)
    if model in OWN:
        sys.path.insert(0, str(Path(__file__).parents[2] / "python" / "src"))
        from weft._trace import trace

        program = trace(net, features=columns.features, edge_features=columns.edge_features or None)
        Path(file).with_suffix(".json").write_text(program.text)


def github(edges: str, archive: str) -> None:
    """Labels are drawn at random, with seed 0. The column of zeros is replaced by the import
    (--random-features)."""
    with np.load(edges) as source:
        vertices = int(source["num_nodes"])
        labels = np.random.default_rng(0).integers(CLASSES, size=vertices)
        np.savez(
            archive,
            edges=source["edges"],
            node_features=np.zeros((vertices, 1), np.float32),
            node_labels=labels,
        )


def mesh(rows: str, columns: str, archive: str) -> None:
    generator, shape = np.random.default_rng(0), (int(rows), int(columns))
    i, j = np.indices(shape).reshape(2, -1)
    offsets = [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)] + [(0, -2), (0, 2)]
    sources = [(i + a) % shape[0] * shape[1] + (j + b) % shape[1] for a, b in offsets]
    displacements = np.repeat(np.array(offsets, np.float32), len(i), 0)
    part = generator.permutation(len(i)) % 5
    np.savez(
        archive,
        edge_index=np.stack([np.concatenate(sources), np.tile(np.arange(len(i)), len(offsets))]),
        edge_attr=np.hstack([displacements, np.linalg.norm(displacements, axis=1, keepdims=True)]).astype(
            np.float32
        ),
        x=generator.standard_normal((len(i), 8), np.float32),
        y=generator.integers(CLASSES, size=len(i)),
        train_mask=part < 3,
        val_mask=part == 3,
        test_mask=part == 4,
    )


if __name__ == "__main__":
    {"weights": weights, "github": github, "mesh": mesh}[sys.argv[1]](*sys.argv[2:])
