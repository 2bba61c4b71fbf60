"""Curves beside their definitions in NumPy, and cases by hand."""

import numpy as np
import pytest
from curves import best, fastest, reached, target


def curve(*epochs):
    return [{"seconds": seconds, "val": val, "test": test} for seconds, val, test in epochs]


RISES = curve((2.0, 0.5, 0.4), (1.0, 0.7, 0.71), (1.5, 0.8, 0.79), (1.0, 0.8, 0.9), (1.0, 0.6, 0.5))


def test_target():
    assert target([RISES, curve((1, 0.9, 0.1))]) == pytest.approx(0.891)
    assert target([RISES]) == pytest.approx(0.792)


@pytest.mark.parametrize(
    "accuracy, there", [(0.5, (1, 2.0)), (0.51, (2, 3.0)), (0.7, (2, 3.0)), (0.8, (3, 4.5)), (0.81, None), (0.0, (1, 2.0))]
)
def test_reached(accuracy, there):
    assert reached(RISES, accuracy) == there


def test_reached_as_by_its_definition():
    """The first index at which the running maximum is there, and the cumulative sum of seconds at it."""
    draws = np.random.default_rng(0)
    for _ in range(200):
        seconds, vals, accuracy = draws.random(9), draws.random(9).round(1), round(draws.random(), 1)
        there = np.flatnonzero(np.maximum.accumulate(vals) >= accuracy)
        got = reached(curve(*((s, v, 0) for s, v in zip(seconds, vals))), accuracy)
        if len(there) == 0:
            assert got is None
        else:
            assert got == (there[0] + 1, pytest.approx(np.cumsum(seconds)[there[0]]))


def test_best_is_the_first():
    assert best(RISES)["test"] == 0.79


def test_fastest():
    slow, high, never = curve((1, 0.1, 0), (1, 0.8, 0)), curve((9, 0.9, 0)), curve((1, 0.2, 0))
    assert fastest({"slow": slow, "high": high, "never": never}, 0.7) == "high"
    assert fastest({"slow": slow, "never": never}, 0.7) == "slow"
    assert fastest({"a": curve((1, 0.7, 0)), "b": high}, 0.7) == "b"  # as many epochs, higher
    assert fastest({"slow": slow, "high": high, "never": never}, 0.95) == "high"  # none is there
