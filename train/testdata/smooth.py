# Writes smooth.json: Correct and Smooth and label propagation of PyTorch Geometric, in the environment of
# gnn/testdata/golden.py, on a small directed graph with weights, duplicate edges, self loops, and vertices
# without edges or labels. Everything is computed in float64.
import json
import pathlib

import torch
from torch_geometric.nn.conv.gcn_conv import gcn_norm
from torch_geometric.nn.models import CorrectAndSmooth, LabelPropagation

torch.manual_seed(3)
V, E, C = 40, 160, 3
edges = torch.randint(0, V - 4, (2, E))
edges[:, :5] = edges[:, 5:10]
edges[1, 10:14] = edges[0, 10:14]
weight = torch.randint(1, 9, (E,)).double() / 8
labels = torch.randint(0, C, (V,))
labels[torch.randperm(V)[:6]] = -1
train, val = (torch.tensor([v for v in part if labels[v] >= 0]) for part in (range(0, V, 3), range(1, V, 6)))
probabilities = torch.softmax(torch.randn(V, C), 1).float()
_, norm = gcn_norm(edges, weight, V, add_self_loops=False, dtype=torch.float64)


def known(lists):
    mask = torch.zeros(V, dtype=torch.bool)
    for part in lists:
        mask[part] = True
    return mask


cases = []
for count, alpha, scale, validation in (
    (0, 0, 0, False),
    (4, 0.8, 0, False),
    (7, 1, 0, True),
    (5, 0.9, 2.5, False),
):
    for rounds, keep in ((0, 0), (3, 0.7)):
        mask, y = known([train] + [val] * validation), probabilities.double()
        c = CorrectAndSmooth(
            max(count, 1), alpha, max(rounds, 1), keep, autoscale=scale == 0, scale=scale or 1.0
        )
        if count:
            y = c.correct(y, labels[mask], mask, edges, norm)
        if rounds:
            y = c.smooth(y, labels[mask], mask, edges, norm)
        else:
            y = y.clone()
            y[mask] = torch.nn.functional.one_hot(labels[mask], C).double()
        cases.append(
            {
                "correct": count,
                "correct_alpha": alpha,
                "smooth": rounds,
                "smooth_alpha": keep,
                "scale": scale,
                "val": validation,
                "result": y.flatten().tolist(),
            }
        )
hot = torch.nn.functional.one_hot(labels.clamp(min=0), C).double()
spread = LabelPropagation(6, 0.9)(hot, edges, known([train]), norm)
json.dump(
    {
        "vertices": V,
        "classes": C,
        "sources": edges[0].tolist(),
        "targets": edges[1].tolist(),
        "weights": weight.tolist(),
        "labels": labels.tolist(),
        "train": train.tolist(),
        "val": val.tolist(),
        "probabilities": probabilities.flatten().tolist(),
        "cases": cases,
        "propagation": {"rounds": 6, "alpha": 0.9, "result": spread.flatten().tolist()},
    },
    open(pathlib.Path(__file__).with_suffix(".json"), "w"),
)
