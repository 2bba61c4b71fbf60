# Writes the metrics of "measures" in oracle.json anew, from the logits and labels there, by scikit-learn. How
# to run, on Debian 12:
#   apt-get install --no-install-recommends python3-sklearn
#   /usr/bin/python3 train/testdata/measures.py
"""Metrics by scikit-learn."""

import json
import pathlib

import numpy
import sklearn
from sklearn.metrics import accuracy_score, average_precision_score, f1_score, roc_auc_score, roc_curve

PATH = pathlib.Path(__file__).resolve().parent / "oracle.json"


def without_argument(logits, labels):
    """Metrics of rows with classes, by scikit-learn. Missing labels are left out."""
    labels = numpy.asarray(labels, float)
    if labels.ndim == 1:
        predicted = logits.argmax(1)
        out = {"accuracy": accuracy_score(labels, predicted)}
        for average in ("micro", "macro"):
            out[average + "-f1"] = f1_score(labels, predicted, average=average)
        if logits.shape[1] == 2 and len(set(labels)) == 2:
            ranked = labels == 1, logits[:, 1] - logits[:, 0]
            out["roc-auc"] = roc_auc_score(*ranked)
            out["average-precision"] = average_precision_score(*ranked)
        return out
    there = ~numpy.isnan(labels)
    out = {"micro-f1": f1_score(labels[there], logits[there] > 0, zero_division=0)}
    f1s, areas, precisions = [], [], []
    for c in range(labels.shape[1]):
        y, z = labels[there[:, c], c], logits[there[:, c], c]
        f1s.append(f1_score(y, z > 0, zero_division=0) if len(y) else 0.0)
        if len(set(y)) == 2:
            areas.append(roc_auc_score(y, z))
            precisions.append(average_precision_score(y, z))
    out["macro-f1"] = float(numpy.mean(f1s))
    if areas:
        out["roc-auc"] = float(numpy.mean(areas))
        out["average-precision"] = float(numpy.mean(precisions))
    return out


def with_argument(logits, labels):
    """Metrics that have an argument in their names, by scikit-learn, but for precision@K, which it does not
    have."""
    labels, out = numpy.asarray(labels, float), {}
    there = ~numpy.isnan(labels)
    for c in range(logits.shape[1]):
        is_c, predicted = (
            (labels == c, logits.argmax(1) == c)
            if labels.ndim == 1
            else (labels[there[:, c], c] == 1, logits[there[:, c], c] > 0)
        )
        out[f"f1:{c}"] = f1_score(is_c, predicted, zero_division=0) if len(is_c) else 0.0
    if labels.ndim == 1 and logits.shape[1] != 2:
        return out
    each = (
        [(labels == 1, logits[:, 1] - logits[:, 0])]
        if labels.ndim == 1
        else [
            (labels[there[:, c], c] == 1, logits[there[:, c], c])
            for c in range(labels.shape[1])
            if there[:, c].any()
        ]
    )

    def precision(positive, score, k):
        """The mean over all orders of equal scores of the share of positives among the first k."""
        k = min(k, len(score))
        last = numpy.sort(score)[-k]
        above, tied = score > last, score == last
        return (positive[above].sum() + (k - above.sum()) * positive[tied].mean()) / k

    def recall(positive, score, rate):
        false, true, _ = roc_curve(positive, score, drop_intermediate=False)
        return true[false <= rate].max()

    for k in (1, 5, 1000):
        out[f"precision@{k}"] = numpy.mean([precision(*ranked, k) for ranked in each])
    for rate in (0, 0.1, 0.5, 1):
        found = [recall(*ranked, rate) for ranked in each if len(set(ranked[0])) == 2]
        if found:
            out[f"recall@fpr={rate}"] = numpy.mean(found)
    return out


def metrics(case):
    """All metrics of a case of "measures"."""
    logits, labels = (numpy.asarray(case[name], float)[case["vertices"]] for name in ("logits", "labels"))
    return without_argument(logits, labels) | with_argument(logits, labels)


def write(oracle):
    PATH.write_text(json.dumps(oracle, separators=(",", ":"), allow_nan=False) + "\n")


if __name__ == "__main__":
    oracle = json.loads(PATH.read_text())
    oracle["sklearn"] = sklearn.__version__
    for case in oracle["measures"].values():
        case["metrics"] = metrics(case)
    write(oracle)
