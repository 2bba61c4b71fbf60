# Writes the files of torch.save that stand in the place of split_dict.pt in the tests. How to run:
#   python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch==2.5.1 numpy
#   /tmp/torch/bin/python graph/ogb/testdata/golden.py
import os

import numpy as np
import torch

os.chdir(os.path.dirname(os.path.abspath(__file__)))
arrays = {"train": np.array([7, 2, 5]), "valid": np.array([0, 4]), "test": np.array([6])}
tensors = {part: torch.from_numpy(ids) for part, ids in arrays.items()}
torch.save(arrays, "arrays.pt", pickle_protocol=4)
torch.save(tensors, "tensors.pt")
torch.save({part: {"paper": ids} for part, ids in tensors.items()}, "typed.pt")
torch.save({"train": tensors["train"]}, "refused-part.pt")
torch.save({part: ids.tolist() for part, ids in arrays.items()}, "refused-list.pt")
