"""What is read from curves of training: a curve is a list of epochs, each with its seconds of training, and
the validation and test accuracy after it. Standard library only."""

import statistics

SHARE = 0.99  # of the best validation accuracy
GAIN = 0.001  # a validation accuracy is better if it is higher by at least that


def target(curves):
    """The accuracy that counts as reached: 99 % of the highest validation accuracy of all curves."""
    return SHARE * max(epoch["val"] for curve in curves for epoch in curve)


def reached(curve, accuracy):
    """The number of epochs up to the first whose validation accuracy is at least that; None where there is
    none."""
    return next((number for number, epoch in enumerate(curve, 1) if epoch["val"] >= accuracy), None)


def best(curve):
    """The epoch with the highest validation accuracy, the first of several."""
    return max(curve, key=lambda epoch: epoch["val"])


def level(curve, patience):
    """Whether none of the last epochs, so many, is better than all epochs before them."""
    before = curve[:-patience]
    return bool(before) and best(curve)["val"] < best(before)["val"] + GAIN


def fastest(curves, accuracy, cost):
    """Of curves by key, the key of the one that reaches an accuracy at the lowest cost: its epochs times
    cost[key], what an epoch takes. Of equal ones, and where none reaches it, that with the highest validation
    accuracy."""

    def order(key):
        epochs = reached(curves[key], accuracy)
        return (epochs * cost[key] if epochs else float("inf"), -best(curves[key])["val"])

    return min(curves, key=order)


def untried(rates, tried, chosen):
    """Which rates of an ascending list to try next: those beside the best of the tried ones. Without one, the
    three in its middle."""
    middle = rates.index(chosen) if tried else len(rates) // 2
    return [rate for rate in rates[max(0, middle - 1) : middle + 2] if rate not in tried]


def epoch_seconds(rounds):
    """The median of the seconds of an epoch in curves of several rounds, without the first epoch of each,
    which has cold caches."""
    return statistics.median(epoch["seconds"] for curve in rounds for epoch in curve[1:])
