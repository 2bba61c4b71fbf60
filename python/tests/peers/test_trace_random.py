"""Programs of random modules, which tests in Go read too: outputs and gradients are the modules', in
float64."""

import pathlib
import sys

import pytest
import torch
from traced import compare

sys.path.append(str(pathlib.Path(__file__).parents[3] / "program/testdata"))
from chains import Drawn


@pytest.mark.parametrize("seed", range(0, 20000, 1000))
def test_random(seed):
    drawn = Drawn(seed)
    module = drawn.draw()
    attr, weight = (name in drawn.more for name in ("edge_attr", "edge_weight"))
    inputs = (
        drawn.x.double(),
        drawn.e,
        *(drawn.more.get(name, torch.zeros(0)).double() for name in ("edge_attr", "edge_weight")),
    )
    compare(module, lambda m, *xs: m(*xs), attr, weight, data=inputs)
