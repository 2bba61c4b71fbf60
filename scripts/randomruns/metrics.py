"""Metrics of predictions, from their definitions."""

import numpy as np


def measured(name, kind, outputs, labels):
    """The metric of rows of outputs; None where it is not computed here, or not defined."""
    if kind == "values":
        return _of_values(
            name,
            outputs.astype(np.float64).reshape(len(labels), -1),
            labels.astype(np.float64).reshape(len(labels), -1),
        )
    if kind == "class":
        known = labels >= 0
        predicted, true, classes = outputs[known].argmax(1), labels[known], outputs.shape[1]
        score = (outputs[known, 1] - outputs[known, 0]) if classes == 2 else None
        predicted, true = np.eye(classes, dtype=bool)[predicted], np.eye(classes, dtype=bool)[true]
        ranked = [(score, true[:, 1])] if classes == 2 else []
    else:
        predicted, true = outputs > 0, labels == 1
        known = ~np.isnan(labels) if labels.dtype.kind == "f" else np.ones(labels.shape, bool)
        if not known.all():
            return None
        ranked = [(outputs[:, k], true[:, k]) for k in range(outputs.shape[1])]
    if not len(true):
        return None
    hits, found, wanted = (predicted & true).sum(0), predicted.sum(0), true.sum(0)
    if name == "accuracy":
        return (predicted == true).mean() if kind == "several" else hits.sum() / len(true)
    if name == "micro-f1":
        return _f1(hits.sum(), found.sum(), wanted.sum())
    if name == "macro-f1":
        there = (found + wanted > 0) | (kind == "several")
        return np.mean([_f1(*counts) for counts in zip(hits[there], found[there], wanted[there])])
    if name == "roc-auc":
        scores = [_auc(s, y) for s, y in ranked if 0 < y.sum() < len(y)]
        return np.mean(scores) if scores else None
    if name == "average-precision":
        scores = [_average_precision(s, y) for s, y in ranked if 0 < y.sum() < len(y)]
        return np.mean(scores) if scores else None
    return None


def _of_values(name, z, y):
    known = ~np.isnan(y)
    if not known.all() or not len(y):
        return None
    if name == "rmse":
        return np.sqrt(((z - y) ** 2).mean())
    if name == "mae":
        return np.abs(z - y).mean()
    spread = ((y - y.mean(0)) ** 2).sum(0)
    return np.mean(1 - ((z - y) ** 2).sum(0) / spread) if name == "r2" and (spread > 0).all() else None


def _f1(hits, found, wanted):
    return 2 * hits / (found + wanted) if found + wanted else 0.0


def _auc(scores, true):
    """The share of pairs of a true and another row that the scores order, ties as halves."""
    more = scores[true][:, None] - scores[~true][None, :]
    return ((more > 0).sum() + 0.5 * (more == 0).sum()) / more.size


def _average_precision(scores, true):
    """The mean precision over recall, where rows of one score count together."""
    total = 0.0
    for at in np.unique(scores[true]):
        total += (scores[true] == at).sum() * true[scores >= at].mean()
    return total / true.sum()
