"""Curves beside their definitions in NumPy, and cases by hand."""

import numpy as np
import pytest
from curves import best, epoch_seconds, fastest, level, reached, target, untried


def curve(*epochs):
    return [{"seconds": seconds, "val": val, "test": test} for seconds, val, test in epochs]


def vals(*accuracies):
    return curve(*((1, val, 0) for val in accuracies))


RISES = curve((2.0, 0.5, 0.4), (1.0, 0.7, 0.71), (1.5, 0.8, 0.79), (1.0, 0.8, 0.9), (1.0, 0.6, 0.5))


def test_target():
    assert target([RISES, vals(0.9)]) == pytest.approx(0.891)
    assert target([RISES]) == pytest.approx(0.792)


@pytest.mark.parametrize(
    "accuracy, epochs", [(0.5, 1), (0.51, 2), (0.7, 2), (0.8, 3), (0.81, None), (0.0, 1)]
)
def test_reached(accuracy, epochs):
    assert reached(RISES, accuracy) == epochs


def test_reached_as_by_its_definition():
    """The first index at which the running maximum is there."""
    draws = np.random.default_rng(0)
    for _ in range(200):
        accuracies, accuracy = draws.random(9).round(1), round(draws.random(), 1)
        there = np.flatnonzero(np.maximum.accumulate(accuracies) >= accuracy)
        assert reached(vals(*accuracies), accuracy) == (there[0] + 1 if len(there) else None)


def test_best_is_the_first():
    assert best(RISES)["test"] == 0.79


def test_level():
    assert not level(vals(0.5, 0.5), 2)  # no epoch before them
    assert level(vals(0.5, 0.5, 0.5), 2)
    assert level(vals(0.5, 0.4, 0.5009), 2)
    assert not level(vals(0.5, 0.4, 0.502), 2)
    assert not level(vals(0.5, 0.502, 0.4), 2)
    assert level(vals(0.5, 0.502, 0.4), 1)
    assert not level(vals(0.1, 0.2, 0.3, 0.4), 3)


def test_fastest():
    same = dict.fromkeys(["slow", "high", "never"], 1)
    slow, high, never = vals(0.1, 0.8), vals(0.9), vals(0.2)
    assert fastest({"slow": slow, "high": high, "never": never}, 0.7, same) == "high"
    assert fastest({"slow": slow, "never": never}, 0.7, same) == "slow"
    assert fastest({"slow": vals(0.7), "high": high}, 0.7, same) == "high"  # as many epochs, higher
    assert fastest({"slow": slow, "high": high, "never": never}, 0.95, same) == "high"  # none is there
    assert (
        fastest({"slow": slow, "high": high}, 0.7, {"slow": 1, "high": 3}) == "slow"
    )  # two epochs of 1 s, one of 3 s
    assert (
        fastest({"slow": slow, "high": high}, 0.7, {"slow": 2, "high": 3}) == "high"
    )  # two of 2 s, one of 3 s
    assert fastest({"slow": slow, "never": never}, 0.7, {"slow": 9, "never": 1}) == "slow"


def test_untried():
    assert untried([1, 2, 3, 4, 5], [], None) == [2, 3, 4]
    assert untried([1, 2, 3, 4, 5], [2, 3, 4], 3) == []
    assert untried([1, 2, 3, 4, 5], [2, 3, 4], 2) == [1]
    assert untried([1, 2, 3, 4, 5], [2, 3, 4], 4) == [5]
    assert untried([1, 2, 3, 4, 5], [1, 2, 3, 4], 1) == []
    assert untried([1, 2, 3], [1], 1) == [2]
    assert untried([1, 2, 3], [], None) == [1, 2, 3]
    assert untried([1, 2], [], None) == [1, 2]
    assert untried([1], [], None) == [1]


def test_epoch_seconds():
    """Without the first epoch of each round: of 2, 4, 3, 9 and 5 the median."""
    assert (
        epoch_seconds(
            [curve((90, 0, 0), (2, 0, 0), (4, 0, 0)), curve((80, 0, 0), (3, 0, 0), (9, 0, 0), (5, 0, 0))]
        )
        == 4
    )
