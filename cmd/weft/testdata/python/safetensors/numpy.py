"""Stands in for safetensors.numpy where that is not installed
(https://github.com/huggingface/safetensors#format)."""

import json

import numpy as np


def load_file(path):
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    header.pop("__metadata__", None)
    dtypes = {"F32": "<f4", "I64": "<i8"}
    return {
        name: np.frombuffer(data[slice(*t["data_offsets"])], dtypes[t["dtype"]]).reshape(t["shape"])
        for name, t in header.items()
    }
