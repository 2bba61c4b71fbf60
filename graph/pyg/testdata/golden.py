# Writes the files that the tests read, and what is in them. How to run:
#   python3 -m venv /tmp/pyg
#   /tmp/pyg/bin/pip install torch==2.5.1 torch_geometric==2.8.1 numpy setuptools wheel
#   /tmp/pyg/bin/pip install --no-build-isolation --no-deps torch_scatter==2.1.2 torch_sparse==0.6.18
#   /tmp/pyg/bin/python graph/pyg/testdata/golden.py
# Without torch_sparse (whose build takes minutes) the files that need it, and what is expected of them, stay
# as they are.
"""Files of torch.save as PyTorch Geometric (PyG) writes them, and expected.json: for each file the graph that
PyG has of it.

A graph there is its types (name, vertices, features or null), the first of them with labels and splits, its
relations (source, name, target, edges [source, target, weight?, features...?] by target and then source), and
the fields that are left out.
"""

import fractions
import json
import pathlib

import numpy as np
import torch
import torch_geometric
import torch_geometric.transforms as T
from torch_geometric import EdgeIndex, Index
from torch_geometric.data import Data, HeteroData, InMemoryDataset

try:
    import torch_sparse
except ImportError:
    torch_sparse = None

HERE = pathlib.Path(__file__).resolve().parent
expected = {} if torch_sparse else json.loads((HERE / "expected.json").read_text())


def edges_of(edge_index, weight=None, features=None):
    rows = []
    for k, (u, v) in enumerate(edge_index.t().tolist()):
        extra = [] if weight is None else [weight[k].item()]
        if features is not None:
            extra += features[k].reshape(-1).tolist()
        rows.append([u, v, *extra])
    return sorted(rows, key=lambda row: (row[1], row[0]))


def splits_of(store):
    if "train_mask" not in store:
        return []
    masks = [store[part + "_mask"].view(len(store["train_mask"]), -1) for part in ("train", "val", "test")]
    splits = max(m.size(1) for m in masks)
    return [[m.expand(-1, splits)[:, k].nonzero().view(-1).tolist() for m in masks] for k in range(splits)]


def write(name, saved, types, relations, left=(), **options):
    """types: {name: (vertices, x or None, y or None, store of masks)}, the first one labelled."""
    torch.save(saved, HERE / f"{name}.pt", **options)
    first = next(iter(types.values()))
    expected[name] = {
        "types": [
            {"type": t, "count": n, "x": None if x is None else x.tolist()} for t, (n, x, *_) in types.items()
        ],
        "y": None if len(first) < 3 or first[2] is None else first[2].tolist(),
        "splits": splits_of(first[3]) if len(first) > 3 else [],
        "relations": [
            {"source": s, "name": r, "target": t, "edges": e} for (s, r, t), e in relations.items()
        ],
        "left": list(left),
    }


def single(name, saved, data, left=(), weight=None, features=None, y=None, x=None, **options):
    """A file whose graph is data's."""
    y = data.get("y") if y is None else y
    x = data.get("x") if x is None else x
    types = {"vertex": (data.num_nodes, x, y, data)}
    write(
        name,
        saved,
        types,
        {("vertex", "edge", "vertex"): edges_of(data.edge_index, weight, features)},
        left,
        **options,
    )


def mask(n, *ids):
    m = torch.zeros(n, dtype=torch.bool)
    m[list(ids)] = True
    return m


def graph(**more):
    """Five vertices, of which the last has no edge; a self loop and an edge that stands twice."""
    return Data(
        x=torch.tensor([[1.0, 0], [0, 2], [0.5, -1], [3, 3], [0, 0]]),
        edge_index=torch.tensor([[0, 1, 3, 2, 1, 0], [1, 0, 2, 2, 0, 3]]),
        y=torch.tensor([0, 1, 2, -1, 1]),
        train_mask=mask(5, 0, 2),
        val_mask=mask(5, 1),
        test_mask=mask(5, 4),
        **more,
    )


# One type
data = graph(edge_weight=torch.tensor([1.0, 2, 0.5, 4, 3, 1]), pos=torch.zeros(5, 2), name="five")
data.get_all_edge_attrs(), data.get_all_tensor_attrs()
single("data", data, data, ['"pos"', '"name"'], weight=data.edge_weight)
data.edge_weight = torch.tensor([0.25]).expand(6)
single("dict", data.to_dict(), data, ['"pos"', '"name"'], weight=data.edge_weight)

data = graph(num_nodes=5, edge_attr=torch.arange(12.0).view(6, 2).half())
data.y = data.y.view(5, 1)
data.train_mask, data.val_mask, data.test_mask = (
    torch.stack([m, m.roll(1)], 1) for m in (mask(5, 0), mask(5, 1), mask(5, 3))
)
data.y[3] = 0
data.edge_index = data.edge_index.t().contiguous().t()
data.x = data.x.bfloat16()
single("splits", data, data, features=data.edge_attr, y=data.y.view(-1), pickle_protocol=4)

data = graph(edge_attr=torch.arange(6, dtype=torch.int32))
data.y = torch.tensor([[1.0, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0], [1, 0, 0]])
data.x = torch.cat([data.x, torch.zeros(5, 3)], 1)[:, :2].double()
del data.val_mask
single("multi", [data], Data.from_dict({**data.to_dict(), "val_mask": mask(5)}), features=data.edge_attr)

wide = Data(edge_index=torch.tensor([[0], [1]]), x=torch.eye(2, 200))
single("wide", wide, wide)

data = Data(edge_index=torch.tensor([[0, 1], [1, 2]]), num_nodes=np.int64(4))
single("bare", data, Data(edge_index=data.edge_index, num_nodes=4))

# Relations as numbers, as RGCNConv takes them
data = graph(edge_type=torch.tensor([2, 0, 2, 0, 0, 7]), edge_attr=torch.arange(6.0))
kinds = {k: (data.edge_type == k).nonzero().view(-1) for k in (0, 2, 7)}
write(
    "edge_type",
    data,
    {"vertex": (5, data.x, data.y, data)},
    {
        ("vertex", str(k), "vertex"): edges_of(data.edge_index[:, at], features=data.edge_attr[at])
        for k, at in kinds.items()
    },
)

# Version 1 keeps its fields as attributes.
data, first = graph(), Data.__new__(Data)
first.__dict__.update({**data.to_dict(), "pos": None, "face": None, "__num_nodes__": 5})
single("version-1", first, data)


class OneGraph(InMemoryDataset):
    pass


data = graph()
OneGraph.save([data], HERE / "dataset.pt")
saved = torch.load(HERE / "dataset.pt", weights_only=False)
assert len(saved) == 3 and saved[1] is None
single("dataset", saved, data)
slices = {
    key: torch.tensor([0, value.size(data.__cat_dim__(key, value))]) for key, value in data.to_dict().items()
}
single("dataset-2", (data, slices), data)
single("dataset-1", (data, None), data)
torch.save(graph(part=fractions.Fraction(1, 2)), HERE / "refused-class.pt")
torch.save(data, HERE / "refused-legacy.pt", _use_new_zipfile_serialization=False)
torch.save(torch.nn.Linear(2, 2).state_dict(), HERE / "refused-weights.pt")
torch.save(data.x, HERE / "refused-tensor.pt")

# Matrices in place of the list of edges, in which no edge stands twice
rows, size = torch.tensor([[0, 1, 3, 2, 0], [1, 0, 2, 2, 3]]), (5, 5)
values = torch.tensor([1.0, 2, 0.5, 4, 3])
for name, weight in (("adj_t", None), ("adj_t-weighted", values)):
    data = graph() if weight is None else graph(edge_weight=weight)
    data.edge_index = rows
    if torch_sparse:
        of_torch_sparse = T.ToSparseTensor()(data.clone())
        assert isinstance(of_torch_sparse.adj_t, torch_sparse.SparseTensor)
        single(name, of_torch_sparse, data, weight=weight)
    single(name + "-csr", T.ToSparseTensor(layout=torch.sparse_csr)(data.clone()), data, weight=weight)
data = graph()
data.edge_index = rows
by_target = torch.sparse_coo_tensor(rows.flip(0), values, size).coalesce()
single(
    "adj_t-coo",
    Data(x=data.x, adj_t=by_target, y=data.y),
    Data(x=data.x, edge_index=rows, y=data.y),
    weight=values,
)

data = graph(edge_attr=torch.arange(5))
data.edge_index = rows
for layout, matrix in (
    ("coo", torch.sparse_coo_tensor(rows, values, size).coalesce()),
    ("csc", torch.sparse_coo_tensor(rows, values, size).coalesce().to_sparse_csc()),
    (
        "storage",
        torch_sparse and torch_sparse.SparseTensor(row=rows[0], col=rows[1], value=values, sparse_sizes=size),
    ),
):
    if matrix is None:
        continue
    saved = {
        "x": data.x.to_sparse_csr() if layout == "coo" else data.x,
        "adj": matrix,
        "y": data.y,
        "edge_attr": data.edge_attr,
    }
    plain = Data(x=data.x, edge_index=rows, y=data.y)
    single("adj-" + layout, saved, plain, ['"edge_attr"'], weight=values)

# Several types
hetero = HeteroData(name="library")
hetero["author"].x = torch.tensor([[1.0, 2, 3], [4, 5, 6]])
hetero["author"].year = torch.tensor([1, 2])
hetero["paper"].x = torch.tensor([[1.0], [2], [3]])
hetero["paper"].y = torch.tensor([1, -1, 0])
hetero["paper"].train_mask, hetero["paper"].val_mask, hetero["paper"].test_mask = (
    mask(3, 0),
    mask(3),
    mask(3, 2),
)
hetero["venue"].num_nodes = 2
hetero["author", "writes", "paper"].edge_index = torch.tensor([[0, 1, 1], [2, 0, 2]])
hetero["author", "writes", "paper"].edge_weight = torch.tensor([0.5, 1, 2])
hetero["paper", "cites", "paper"].edge_index = torch.tensor([[0, 1], [1, 2]])
hetero["paper", "cites", "paper"].edge_attr = torch.tensor([[1, 2], [3, 4]])
hetero["paper", "in", "venue"].edge_index = torch.tensor([[0, 1, 2], [1, 1, 0]])


def typed(data, types):
    vertices = {}
    for t in types:
        store = data[t]
        vertices[t] = (store.num_nodes, store.get("x"), store.get("y"), store)
    relations = {}
    for t in data.edge_types:
        store = data[t]
        relations[t] = edges_of(store.edge_index, store.get("edge_weight"), store.get("edge_attr"))
    return vertices, relations


left = ['"name"', '"year" of "author"']
paper_first = typed(hetero, ("paper", "author", "venue"))
write("hetero", hetero, *paper_first, left)
write("hetero-dict", hetero.to_dict(), *paper_first, left)
before = {
    **hetero.to_dict()["_global_store"],
    **{k: v for k, v in hetero.to_dict().items() if k != "_global_store"},
}
write("hetero-dict-2.0", before, *paper_first, left)
OneGraph.save([hetero], HERE / "hetero-dataset.pt")
write("hetero-dataset", torch.load(HERE / "hetero-dataset.pt", weights_only=False), *paper_first, left)
if torch_sparse:
    write(
        "hetero-adj_t",
        T.ToSparseTensor(attr="edge_weight")(hetero.clone()),
        typed(hetero, ("paper", "author", "venue"))[0],
        {t: [e[:3] if "writes" in t else e[:2] for e in edges] for t, edges in paper_first[1].items()},
        left + ['"edge_attr" of "paper__cites__paper"'],
    )

two = hetero.clone()
two["author"].y = torch.tensor([0, 1])
write(
    "two-labels",
    two,
    *typed(two, ("author", "paper", "venue")),
    [
        '"name"',
        '"year" of "author"',
        '"y" of "paper"',
        '"train_mask" of "paper"',
        '"val_mask" of "paper"',
        '"test_mask" of "paper"',
    ],
)

lean = HeteroData()
lean["a", "to", "b"].edge_index = torch.tensor([[0, 3], [1, 1]])
lean["b", "to", "a"].edge_index = torch.tensor([[1], [2]])
write(
    "lean", lean, {"a": (4, None), "b": (2, None)}, {t: edges_of(lean[t].edge_index) for t in lean.edge_types}
)

wide = HeteroData()
wide["paper"].x = torch.eye(2, 200)
wide["paper", "cites", "paper"].edge_index = torch.tensor([[0], [1]])
write("hetero-wide", wide, *typed(wide, ("paper",)))

# Fields by type, as the Open Graph Benchmark has them
ogb = Data()
ogb.num_nodes_dict = {"paper": 3, "author": 2, "venue": 2}
ogb.edge_index_dict = {t: hetero[t].edge_index for t in hetero.edge_types}
ogb.x_dict = {"paper": hetero["paper"].x}
ogb.y_dict = {"paper": hetero["paper"].y.view(-1, 1)}
ogb.edge_reltype = {t: torch.zeros(hetero[t].num_edges, 1) for t in hetero.edge_types}
vertices, relations = typed(hetero, ("paper", "author", "venue"))
vertices = {"paper": (*vertices["paper"][:3], {}), "author": (2, None), "venue": (2, None)}
write(
    "ogb", ogb, vertices, {t: edges_of(hetero[t].edge_index) for t in hetero.edge_types}, ['"edge_reltype"']
)

# Tensors of PyG's own classes, with what they remember of themselves
data = graph(edge_weight=torch.tensor([1.0, 2, 0.5, 4, 3, 1]))
of_class = data.clone()
of_class.edge_index = EdgeIndex(data.edge_index, sparse_size=(5, 5))
of_class.y = Index(data.y.clamp(min=0))
single("edge_index-class", of_class, data, y=data.y.clamp(min=0), weight=data.edge_weight)
by_target, order = EdgeIndex(data.edge_index, sparse_size=(5, 5)).sort_by("col")
by_target.fill_cache_()
one = Data(x=data.x, edge_index=by_target, y=data.y)
OneGraph.save([one], HERE / "edge_index-class-dataset.pt")
single(
    "edge_index-class-dataset",
    torch.load(HERE / "edge_index-class-dataset.pt", weights_only=False),
    Data(**{**one.to_dict(), "edge_index": by_target.as_tensor()}),
)

# Floats: features of 8 bits; labels and masks that are whole
data = graph()
floats = Data(
    x=data.x.to(torch.float8_e4m3fn),
    edge_index=data.edge_index,
    y=data.y.double(),
    **{part + "_mask": data[part + "_mask"].float() for part in ("train", "val", "test")},
)
single("floats", floats, data)
floats.y = floats.y + 0.5
torch.save(floats, HERE / "float-labels.pt")
floats.y, floats.edge_index = data.y, data.edge_index.float()
torch.save(floats, HERE / "refused-float-edges.pt")
floats.edge_index, floats.x = data.edge_index, data.x.to(torch.float8_e4m3fnuz)
torch.save(floats, HERE / "refused-type.pt")

# Masks as WikiCS has them: V × splits for training and validation, V for testing
data = graph()
data.y = data.y.clamp(min=0)
data.train_mask = torch.stack([data.train_mask, mask(5, 3)], 1)
data.val_mask = torch.stack([data.val_mask, mask(5, 0, 2)], 1)
data.stopping_mask = data.val_mask
single("wikics", data, data, ['"stopping_mask"'])

# Lists in place of masks, and the labels of those that they list, as Entities has them
listed = dict(
    train_idx=torch.tensor([4, 0]),
    train_y=torch.tensor([2, 1]),
    test_idx=torch.tensor([3]),
    test_y=torch.tensor([0]),
)
labels, splits = (
    torch.tensor([1, -1, -1, 0, 2]),
    {"train_mask": mask(5, 0, 4), "val_mask": mask(5), "test_mask": mask(5, 3)},
)
kinds = {k: (torch.tensor([2, 0, 2, 0, 0, 7]) == k).nonzero().view(-1) for k in (0, 2, 7)}
write(
    "entities",
    Data(edge_index=graph().edge_index, edge_type=torch.tensor([2, 0, 2, 0, 0, 7]), num_nodes=5, **listed),
    {"vertex": (5, None, labels, splits)},
    {("vertex", str(k), "vertex"): edges_of(graph().edge_index[:, at]) for k, at in kinds.items()},
)
entities = HeteroData()
entities["other"].num_nodes = 5
entities["v"].num_nodes = 5
for key, value in listed.items():
    entities["v"][key] = value
entities["other", "to", "v"].edge_index = graph().edge_index
write(
    "entities-hetero",
    entities,
    {"v": (5, None, labels, splits), "other": (5, None)},
    {("other", "to", "v"): edges_of(graph().edge_index)},
)

# Splits of edges for link prediction (TestEdgeSplits): as RandomLinkSplit leaves them, without edge_label;
# and in a HeteroData
torch.manual_seed(0)
path = Data(edge_index=torch.stack([torch.arange(19), torch.arange(1, 20)]), num_nodes=20)
train, val, test = T.RandomLinkSplit(num_val=4, num_test=5, add_negative_train_samples=False)(path)
links = Data(edge_index=train.edge_index, num_nodes=20, train_edges=train.edge_label_index.t())
for name, part in (("val", val), ("test", test)):
    links[name + "_edges"] = part.edge_label_index[:, part.edge_label == 1].t()
    links[name + "_negatives"] = part.edge_label_index[:, part.edge_label == 0].t()
torch.save(links, HERE / "links.pt")
hetero = HeteroData()
hetero["a"].num_nodes, hetero["b"].num_nodes = 3, 4
hetero["a", "x", "b"].edge_index = torch.tensor([[0, 1], [3, 2]])
hetero["a", "x", "b"].train_edges = torch.tensor([[0, 3], [1, 2]])
hetero["a", "x", "b"].val_edges = torch.tensor([[2, 0]])
hetero["a", "x", "b"].test_edges = torch.tensor([[2, 1]])
hetero["a", "x", "b"].val_negative_targets = torch.tensor([[1, 2, 3]])
hetero["a", "x", "b"].test_negative_targets = torch.tensor([[0, 2, 3]])
torch.save(hetero, HERE / "links-hetero.pt")
torch.save(
    Data(**links.to_dict(), edge_type=torch.arange(train.edge_index.shape[1]) % 2), HERE / "refused-links.pt"
)
lists = ["train_edges", "val_edges", "test_edges", "val_negatives", "test_negatives"]
(HERE / "links.json").write_text(json.dumps({name: links[name].flatten().tolist() for name in lists}) + "\n")

text = ",\n".join(json.dumps(name) + ": " + json.dumps(value) for name, value in sorted(expected.items()))
(HERE / "expected.json").write_text("{\n" + text + "\n}\n")
print(
    "torch",
    torch.__version__,
    "torch_geometric",
    torch_geometric.__version__,
    "torch_sparse",
    torch_sparse and torch_sparse.__version__,
)
