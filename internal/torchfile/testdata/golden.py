# Writes the tensors that the tests read. How to run:
#   python3 -m venv /tmp/torch && /tmp/torch/bin/pip install torch==2.5.1 numpy
#   /tmp/torch/bin/python internal/torchfile/testdata/golden.py
# types.pt is of PyTorch 2.15, which saves uint16 where 2.5 fails; the script writes no other file then.
# sparse-1.13.pt is of the same lines under PyTorch 1.13 (Debian 12's python3-torch), which writes sparse
# tensors otherwise.
"""tensors.pt: a dict of tensors of each element type, and of windows on storages of each shape; sparse.pt: of
each layout; types.pt: the element types that NumPy lacks or that came late, and tensors with attributes."""

import collections
import pathlib
import sys

import numpy as np
import torch

HERE = pathlib.Path(__file__).resolve().parent

base = torch.arange(12, dtype=torch.int64).view(3, 4)
tensors = collections.OrderedDict(
    float32=torch.tensor([[1.5, -2], [0, 3]]),
    float64=torch.tensor([1.5, -2], dtype=torch.float64),
    float16=torch.tensor([1.5, -2], dtype=torch.float16),
    bfloat16=torch.tensor([[1.5, -2], [0, 3]], dtype=torch.bfloat16),
    int64=torch.tensor([1, -2]),
    int32=torch.tensor([1, -2], dtype=torch.int32),
    int16=torch.tensor([1, -2], dtype=torch.int16),
    int8=torch.tensor([1, -2], dtype=torch.int8),
    uint8=torch.tensor([1, 254], dtype=torch.uint8),
    bool=torch.tensor([True, False]),
    base=base,
    transposed=base.t(),
    window=base[1:, 1:3],
    column=base[:, 2],
    row=base[2],
    every=base[::2, ::3],
    swapped=torch.arange(8).view(2, 2, 2).permute(2, 0, 1),
    expanded=torch.tensor([[7], [8]]).expand(2, 3),
    narrow=torch.tensor([[1.5, -2], [0, 3]], dtype=torch.bfloat16).t(),
    scalar=torch.tensor(5),
    empty=torch.zeros(0, 3),
    parameter=torch.nn.Parameter(torch.tensor([1.0, 2.0])),
    complex64=torch.tensor([1 + 2j]),
    other={
        "size": torch.Size([2, 3]),
        "device": torch.device("cpu"),
        "type": torch.float16,
        "array": np.array([1, 2]),
        "text": "é",
        7: None,
    },
)
matrix = torch.tensor([[0, 1.5, 0], [2, 0, 3]])
sparse = {"coo": matrix.to_sparse(), "csr": matrix.to_sparse_csr()}
if hasattr(torch, "uint16") and int(torch.__version__.split(".")[1]) > 5:
    # Every pattern of eight bits, and the float32 that PyTorch makes of it
    patterns = torch.arange(256).to(torch.uint8)
    types = {name: patterns.view(getattr(torch, name)) for name in ("float8_e4m3fn", "float8_e5m2")}
    types = {**types, **{name + " as float32": value.float() for name, value in types.items()}}
    for bits in (16, 32, 64):
        types[f"uint{bits}"] = torch.tensor([1, 2, (1 << min(bits, 63)) - 1]).to(
            getattr(torch, f"uint{bits}")
        )
    types["column"] = torch.tensor([[1.5, -2], [0, 3]]).to(torch.float8_e5m2)[:, 1]
    named = torch.tensor([1.0, 2.0])
    named.source = "attributes make a tensor one of a class"
    types["named"], types["parameter"] = named, torch.nn.Parameter(named.clone())
    types["parameter"].source = "a parameter too"
    torch.save(types, HERE / "types.pt")
    torch.save({"negated": torch.tensor([1 + 2j]).conj().imag}, HERE / "negated.pt")
elif torch.__version__ >= "2":
    torch.save(tensors, HERE / "tensors.pt")
    torch.save(tensors["base"], HERE / "legacy.pt", _use_new_zipfile_serialization=False)
    torch.save({"a": [1, tensors["int8"]]}, HERE / "protocol-5.pt", pickle_protocol=5)
    torch.save({**sparse, "csc": matrix.to_sparse_csc()}, HERE / "sparse.pt")
else:
    torch.save(sparse, HERE / "sparse-1.13.pt")
print(sys.argv[0], torch.__version__)
