"""What is read from curves of training: a curve is a list of epochs, each with its seconds of training, and the validation and
test accuracy after it. Standard library only."""

SHARE = 0.99  # of the best validation accuracy


def target(curves):
    """The accuracy that counts as reached: 99 % of the highest validation accuracy of all curves."""
    return SHARE * max(epoch["val"] for curve in curves for epoch in curve)


def reached(curve, accuracy):
    """The number of epochs, and their seconds of training, up to the first whose validation accuracy is at least that; None
    where there is none."""
    seconds = 0.0
    for number, epoch in enumerate(curve, 1):
        seconds += epoch["seconds"]
        if epoch["val"] >= accuracy:
            return number, seconds
    return None


def best(curve):
    """The epoch with the highest validation accuracy, the first of several."""
    return max(curve, key=lambda epoch: epoch["val"])


def fastest(curves, accuracy):
    """Of curves by key, the key of the one that reaches an accuracy in the fewest epochs; of equal ones, and where none
    reaches it, that with the highest validation accuracy. Epochs of one system take equally long."""

    def order(key):
        there = reached(curves[key], accuracy)
        return (there[0] if there else float("inf"), -best(curves[key])["val"])

    return min(curves, key=order)
