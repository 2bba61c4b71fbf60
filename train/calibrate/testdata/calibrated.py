# Writes calibrated.json beside it: probabilities and thresholds by scikit-learn and SciPy. How to run, in an
# environment of scripts/peers/environment pyg:
#
#     python3 train/calibrate/testdata/calibrated.py
import json
import pathlib

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import f1_score, precision_recall_curve


def numbers(x):
    return [None if np.isnan(v) else float(v) for v in np.asarray(x, np.float64).ravel()]


def isotonic(p, y):
    return IsotonicRegression(out_of_bounds="clip").fit(p, y)


def threshold(y, p):
    """The lowest threshold with the largest F1, and that."""
    precision, recall, at = precision_recall_curve(y, p)
    with np.errstate(invalid="ignore"):
        f1 = np.nan_to_num(2 * precision * recall / (precision + recall))[:-1]
    best = int(f1.argmax())
    return [float(at[best]), float(f1[best])]


def each_label(p, y):
    """Of each label that is told how sure its prediction is, and whether it is right."""
    told = ~np.isnan(y)
    return np.maximum(p, 1 - p)[told], ((p > 0.5) == (y > 0.5))[told]


def error(sure, right, bins=15):
    """The expected calibration error: bins by numpy.digitize, closed below."""
    at = np.digitize(sure, np.arange(1, bins) / bins)
    return float(
        sum(abs(sure[at == k].mean() - right[at == k].mean()) * (at == k).mean() for k in np.unique(at))
    )


def case(kind, rng):
    classes, rows = {"two": 2, "four": 4, "labels": 3}[kind], 90
    # a coarse grid, so that probabilities tie
    logits = (np.round(rng.normal(0, 2, (rows, classes)) * 4) / 4).astype(np.float32)
    wide = logits.astype(np.float64)
    fit, rest = np.arange(60), np.arange(60, rows)
    out = {"kind": kind, "classes": classes, "logits": numbers(logits), "fit": fit.tolist()}
    if kind == "labels":
        y = (rng.random((rows, classes)) < expit(wide / 2.5)).astype(np.float64)
        y[rng.random((rows, classes)) < 0.1] = np.nan
        known = ~np.isnan(y[fit])

        def loss(log_t):
            z = wide[fit] / np.exp(log_t)
            return -(y[fit] * log_expit(z) + (1 - y[fit]) * log_expit(-z))[known].mean()

        p = expit(wide)
        stepped = np.stack(
            [isotonic(p[fit][known[:, k], k], y[fit][known[:, k], k]).predict(p[:, k]) for k in range(3)], 1
        )
        out |= {"thresholds": [], "rest_f1s": []}
        for k in range(classes):
            told = ~np.isnan(y[:, k])
            rows_of, others = fit[told[fit]], rest[told[rest]]
            at, f1 = threshold(y[rows_of, k], p[rows_of, k])
            out["thresholds"].append([at, f1])
            out["rest_f1s"].append(float(f1_score(y[others, k], p[others, k] >= at)))
        out["errors"] = [error(*each_label(p, y)), error(*each_label(stepped, y))]
        divide = expit
    else:
        truth = np.array([rng.choice(classes, p=row) for row in softmax(wide / 2.5, 1)])
        y = truth.astype(np.float64)

        def loss(log_t):
            return -log_softmax(wide[fit] / np.exp(log_t), 1)[np.arange(len(fit)), truth[fit]].mean()

        p = softmax(wide, 1)
        if kind == "two":
            one = isotonic(p[fit, 1], truth[fit]).predict(p[:, 1])
            stepped = np.stack([1 - one, one], 1)
            out["threshold"] = threshold(truth[fit], p[fit, 1])
            out["rest_f1"] = float(f1_score(truth[rest], p[rest, 1] >= out["threshold"][0]))
        else:
            each = [isotonic(p[fit, k], truth[fit] == k).predict(p[:, k]) for k in range(classes)]
            stepped = np.stack(each, 1)
            sums = stepped.sum(1, keepdims=True)
            stepped = np.where(sums > 0, stepped / np.where(sums > 0, sums, 1), 1 / classes)

        def divide(z):
            return softmax(z, 1)

    t = float(np.exp(minimize_scalar(loss, bounds=(-5, 5), method="bounded", options={"xatol": 1e-12}).x))
    out.update(
        labels=numbers(y), temperature=t, tempered=numbers(divide(wide / t)), isotonic=numbers(stepped)
    )
    return out


rng = np.random.default_rng(3)
text = json.dumps([case(kind, rng) for kind in ("two", "four", "labels")])
(pathlib.Path(__file__).resolve().parent / "calibrated.json").write_text(text + "\n")
