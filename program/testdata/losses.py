# Writes losses.json: losses of PyTorch in float64 with their gradients, and as programs. How to run:
#   PYTHONPATH=python/src:python/tests/peers $(scripts/peers/environment pyg ~/.cache/weft-peers)/bin/python \
#       program/testdata/losses.py
"""Golden losses: those of python/tests/peers/test_loss.py, of random logits and labels."""

import copy
import json
import pathlib

import torch
from test_loss import CLASSES, CLASSIFY, SEVERAL, VALUES

from weft._loss import _traced

ROWS = 30


def main():
    torch.manual_seed(1)
    golden = []
    labels = {
        "class": torch.arange(ROWS) % CLASSES,
        "several": torch.randint(2, (ROWS, CLASSES)).float(),
        "values": torch.randn(ROWS, 2),
    }
    for (kind, y), losses in zip(labels.items(), (CLASSIFY, SEVERAL, VALUES)):
        columns = 2 if kind == "values" else CLASSES
        for name, loss in losses.items():
            z = torch.randn(ROWS, columns).double().requires_grad_()
            exact = copy.deepcopy(loss).double() if isinstance(loss, torch.nn.Module) else loss
            value = exact(z.float().double(), y if kind == "class" else y.double()).mean()
            value.backward()
            text = _traced(
                loss, torch.zeros(10007, columns), torch.zeros(10007, *y.shape[1:], dtype=y.dtype), columns
            )
            golden.append(
                {
                    "name": f"{kind}: {name}",
                    "loss": json.loads(text),
                    "logits": z.detach().flatten().tolist(),
                    kind: y.flatten().tolist(),
                    "value": value.item(),
                    "gradient": z.grad.flatten().tolist(),
                }
            )
    (pathlib.Path(__file__).parent / "losses.json").write_text(rounded(golden) + "\n")


def rounded(golden):
    """A line for each loss, of numbers as float32 has them."""
    short = json.loads(json.dumps(golden), parse_float=lambda text: float(f"{float(text):.9g}"))
    return "[" + ",\n".join(json.dumps(g) for g in short) + "]"


if __name__ == "__main__":
    main()
