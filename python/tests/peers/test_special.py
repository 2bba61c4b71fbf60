"""Operations that are written here by others, at their special points, beside PyTorch in float64.
program/testdata/special has all of them."""

import torch
from interpreter import Interpreter
from special import Special, computed, edges

from weft._trace import trace

NAMES = (
    *(f"one: {name}" for name in ("clamp", "clamp min", "clamp crossed", "hardtanh", "relu6", "hardsigmoid",
                                         "hardswish", "softshrink", "sinc", "round -1", "remainder", "frac")),
    *(f"two: {name}" for name in ("fmax", "fmin", "hypot", "div floor", "max of stack", "xor")),
    *(f"four: {name}" for name in ("max", "min of pairs", "max of relu", "norm 3", "any of numbers",
                                          "count_nonzero", "nll")),
)  # fmt: skip


def test_special_points():
    module = Special(set(NAMES))
    program = trace(module, features=module.features)
    wanted, slope = computed(module, torch.float64)
    x = module.inputs().double().requires_grad_()
    made = Interpreter(program.text)({"zero": module.zero.detach()}, x, edges())
    made.backward(torch.arange(1, made.shape[1] + 1, dtype=made.dtype).expand_as(made))
    for got, want, names in ((made, wanted, module.columns()), (x.grad, slope, module.columns(True))):
        alike = torch.isclose(got, want, rtol=1e-7, atol=1e-30, equal_nan=True)  # PyTorch has 1/6 in float32
        assert not {names[column] for column in (~alike).nonzero()[:, 1].tolist()}
