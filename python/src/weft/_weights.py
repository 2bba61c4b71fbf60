"""Files of safetensors, by NumPy alone."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arrays import Array, array, dense
from ._errors import Refused, reading

if TYPE_CHECKING:
    import torch

_TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U8": "|u1",
    "BOOL": "|b1",
}


def read(path: str | os.PathLike[str]) -> dict[str, Array]:
    """The arrays of a file by their names. bfloat16 becomes float32."""
    with reading(path):
        data = Path(path).read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        header.pop("__metadata__", None)
        rest = memoryview(data)[8 + length :]
        return {name: _one(rest, entry) for name, entry in header.items()}


def _one(data: memoryview, entry: dict[str, Any]) -> Array:
    begin, end = entry["data_offsets"]
    if entry["dtype"] == "BF16":
        values: Array = (np.frombuffer(data[begin:end], "<u2").astype(np.uint32) << 16).view(np.float32)
    else:
        values = np.frombuffer(data[begin:end], _TYPES[entry["dtype"]]).copy()
    return values.reshape(entry["shape"])


def write(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> None:
    """Writes a file with arrays, or tensors of PyTorch, by their names."""
    header: dict[str, Any] = {}
    parts, at = [], 0
    names = {dtype: name for name, dtype in _TYPES.items()}
    for name, value in arrays.items():
        made = np.ascontiguousarray(array(value, name))
        if made.dtype.str not in names:
            raise Refused(f"init: {name} is of the type {made.dtype}: give floats or integers")
        header[name] = {
            "dtype": names[made.dtype.str],
            "shape": list(np.shape(value)),
            "data_offsets": [at, at + made.nbytes],
        }
        parts.append(made)
        at += made.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for part in parts:
            file.write(part.tobytes())


def of_module(module: torch.nn.Module, program: Mapping[str, Any]) -> dict[str, Array]:
    """The arrays of a module: floats, and as integers the counters, and what the program does not read.

    A file of weights has no booleans, and no other types: the module itself has these.
    """
    read = {parameter["name"] for parameter in program["parameters"]}
    counters = {operation.get("batches") for operation in program["operations"]}
    arrays = {}
    for name, tensor in module.state_dict().items():
        tensor = dense(tensor, f"model: {name}")
        if tensor.is_floating_point() or name in read - counters:
            arrays[name] = tensor.float().numpy()
        elif tensor.dtype.itemsize > 1 and not tensor.is_complex():
            arrays[name] = tensor.long().numpy()
    return arrays
