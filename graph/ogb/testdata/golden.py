# Writes the splits that the tests read, as OGB's DatasetSaver does. How to run:
#   python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch==2.5.1 numpy
#   /tmp/torch/bin/python graph/ogb/testdata/golden.py
import pathlib

import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent
split = {"train": np.array([4, 0, 2]), "valid": torch.tensor([5]), "test": torch.tensor([9, 1], dtype=torch.int32)}
torch.save(split, HERE / "split_dict.pt")
torch.save({part: {"paper": ids, "author": torch.tensor([0])} for part, ids in split.items()}, HERE / "typed_split_dict.pt")
torch.save({**split, "train": torch.tensor([10])}, HERE / "refused_split_dict.pt")
