# Writes the splits that the tests read, as OGB's DatasetSaver does. How to run:
#   python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch==2.5.1 numpy
#   /tmp/torch/bin/python graph/ogb/testdata/golden.py
import pathlib

import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent
split = {
    "train": np.array([4, 0, 2]),
    "valid": torch.tensor([5]),
    "test": torch.tensor([9, 1], dtype=torch.int32),
}
torch.save(split, HERE / "split_dict.pt")
torch.save(
    {part: {"paper": ids, "author": torch.tensor([0])} for part, ids in split.items()},
    HERE / "typed_split_dict.pt",
)
torch.save({**split, "train": torch.tensor([10])}, HERE / "refused_split_dict.pt")

# Splits of edges, as those of ogbl-collab and ogbl-citation2; and one of triples, which is not read.
edges = np.array([[0, 1], [1, 2], [2, 3], [3, 0], [0, 1]])
(HERE / "collab").mkdir(exist_ok=True)
torch.save({"edge": torch.from_numpy(edges), "year": np.array([1, 1, 2, 2, 3])}, HERE / "collab/train.pt")
torch.save(
    {"edge": edges[:2, ::-1].copy(), "edge_neg": np.array([[5, 1], [1, 5], [2, 2]])}, HERE / "collab/valid.pt"
)
torch.save(
    {"edge": torch.tensor([[0, 2], [3, 1], [0, 2]]), "edge_neg": torch.tensor([[5, 4], [4, 4]])},
    HERE / "collab/test.pt",
)
(HERE / "citation2").mkdir(exist_ok=True)
torch.save(
    {"source_node": edges[:, 0].copy(), "target_node": edges[:, 1].copy()}, HERE / "citation2/train.pt"
)
for part, targets in {"valid": [[1, 2, 3], [4, 5, 0]], "test": [[5, 4, 3], [2, 1, 0]]}.items():
    torch.save(
        {
            "source_node": torch.tensor([4, 2]),
            "target_node": torch.tensor([0, 5]),
            "target_node_neg": torch.tensor(targets),
        },
        HERE / f"citation2/{part}.pt",
    )
(HERE / "wikikg2").mkdir(exist_ok=True)
torch.save(
    {"head": edges[:, 0].copy(), "relation": edges[:, 0].copy(), "tail": edges[:, 1].copy()},
    HERE / "wikikg2/train.pt",
)
