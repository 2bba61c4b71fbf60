# Writes special/VERSION.safetensors of the installed PyTorch. How to run:
#   PYTHONPATH=python/src:python/tests/peers PYTHON program/testdata/special_points.py
"""Golden files of operations at their special points, those of python/tests/peers/special.py.

Tensors: x, edge_index; param.NAME; logits and grad.x in float64, as float32 has them, and those that PyTorch
computes in float32. The gradient is that of the sum of all logits times 1, 2, 3, … from the first column. The
metadata has the program, the names of the operations by column, and PyTorch's version.
"""

import json
import pathlib
import sys

import torch
from safetensors.torch import save_file
from special import Special, computed, edges

from weft._trace import trace


def short(text):
    """A program without the lines of its source."""
    program = json.loads(text)
    program["operations"] = [
        {k: v for k, v in o.items() if k not in ("line", "path")} for o in program["operations"]
    ]
    return json.dumps(program)


def main(names=None):
    module = Special(names)
    program = trace(module, features=module.features)
    tensors = {"x": module.inputs(), "edge_index": edges(), "param.zero": module.zero.detach()}
    for kind, suffix in ((torch.float64, ""), (torch.float32, "32")):
        logits, gradient = computed(module, kind)
        tensors |= {"logits" + suffix: logits.float(), "grad" + suffix: gradient.float()}
    version = torch.__version__.split("+")[0]
    folder = pathlib.Path(__file__).parent / "special"
    folder.mkdir(exist_ok=True)
    meta = {
        "program": short(program.text),
        "names": json.dumps(module.columns()),
        "inputs": json.dumps(module.columns(True)),
    }
    save_file({k: v.contiguous() for k, v in tensors.items()}, folder / f"{version}.safetensors", meta)


if __name__ == "__main__":
    main(sys.argv[1:] or None)
