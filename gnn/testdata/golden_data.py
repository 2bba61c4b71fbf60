"""The graph of the golden files, its features and labels, and how a file is written."""

import json
import pathlib
import struct

import torch

V, FEATURES, HIDDEN, HEADS, CLASSES = 40, 11, 12, 3, 5
HUB, ISOLATED = 7, (0, 17, 39)
HERE = pathlib.Path(__file__).resolve().parent
TYPES = {torch.float32: "F32", torch.float64: "F64", torch.int64: "I64"}


def save(path, tensors, metadata):
    """Writes a safetensors file: the header's length, a JSON header, the tensors' bytes; eight-byte types
    first, so aligned."""
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header, at = {"__metadata__": metadata}, 0
    for name in order:
        t = tensors[name]
        size = t.numel() * t.element_size()
        header[name] = {"dtype": TYPES[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = b"".join(tensors[name].contiguous().numpy().tobytes() for name in order)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def uniform(rng, *shape, middle=0.0, width=1.0):
    """Numbers of [middle - width, middle + width) that are exact in float32, as float64."""
    return (middle + (torch.rand(*shape, generator=rng, dtype=torch.float32) * 2 - 1) * width).double()


def dataset():
    """The graph, its features, both kinds of labels, and the training vertices."""
    rng = torch.Generator().manual_seed(1)
    live = torch.tensor([v for v in range(V) if v not in ISOLATED])
    pick = lambda n: live[torch.randint(len(live), (n,), generator=rng)]
    edges = [torch.stack([pick(90), pick(90)])]
    edges.append(torch.stack([live[::2], torch.full_like(live[::2], HUB)]))  # into the hub
    edges.append(torch.stack([torch.full_like(live[::3], HUB), live[::3]]))  # out of the hub
    edges.append(edges[0][:, :8])  # duplicates, with weights of their own
    edges.append(torch.tensor([[3, 5, 5, 20, HUB], [3, 5, 5, 20, HUB]]))  # self loops, one of them twice
    edges = torch.cat(edges, 1)
    sources_only = torch.tensor([11, 30])  # vertices with out-edges and no in-edge
    edges = edges[:, ~torch.isin(edges[1], sources_only)]
    edges = edges[:, torch.randperm(edges.shape[1], generator=rng)]
    weight = uniform(rng, edges.shape[1], middle=1, width=0.5)
    weight[edges[0] == edges[1]] = 0.75  # equal on all self loops: PyG keeps any one of duplicate loops
    x = uniform(rng, V, FEATURES)
    x[uniform(rng, V, FEATURES) < -0.2] = 0
    labels = torch.randint(CLASSES, (V,), generator=rng)
    several = (uniform(rng, V, CLASSES) > 0.2).double()
    train = torch.randperm(V, generator=rng)[:22].sort().values
    rest = [v for v in range(V) if v not in train.tolist()]
    labels[rest[::4]] = -1
    several[rest[::4]] = float("nan")
    return edges, weight, x, labels, several, train


EDGES, WEIGHT, X, LABELS, SEVERAL, TRAIN = dataset()
EDGE_FEATURES = 4
EDGE_ATTR = uniform(torch.Generator().manual_seed(3), EDGES.shape[1], EDGE_FEATURES)
