# Writes several-*.pt and several.json. How to run: see golden.py (torch and torch_geometric are enough).
#   python3 graph/pyg/testdata/several.py
"""Files with several graphs as PyTorch Geometric (PyG) writes them, and several.json: the graph that its
Batch makes of each."""

import json
import pathlib

import torch
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset

HERE = pathlib.Path(__file__).resolve().parent
expected = {}


def graphs(labels):
    g = torch.Generator().manual_seed(1)
    for n, edges in ((4, 6), (1, 0), (3, 5)):
        yield Data(
            x=torch.rand(n, 3, generator=g),
            edge_index=torch.randint(n, (2, edges), generator=g),
            edge_weight=torch.rand(edges, generator=g),
            y=labels(n, g),
            train_mask=torch.rand(n, generator=g) < 0.5,
        )


def write(name, saved, data):
    torch.save(saved, HERE / f"several-{name}.pt")
    b = Batch.from_data_list(data)
    edges = [[u, v, w] for (u, v), w in zip(b.edge_index.t().tolist(), b.edge_weight.tolist())]
    whole = b.y.size(0) != b.num_nodes
    expected[name] = {
        "x": b.x.tolist(),
        "y": None if whole else b.y.tolist(),
        "batch": b.batch.tolist(),
        "train": b.train_mask.nonzero().view(-1).tolist(),
        "edges": sorted(edges, key=lambda e: (e[1], e[0])),
    }


multi = list(graphs(lambda n, g: torch.randint(2, (n, 2), generator=g).float()))
classes = list(graphs(lambda n, g: torch.randint(3, (n,), generator=g)))
whole = list(graphs(lambda n, g: torch.randint(2, (1,), generator=g)))
data, slices = InMemoryDataset.collate(multi)
write("dataset", (data.to_dict(), slices, Data), multi)  # as InMemoryDataset.save
write("dataset-2", InMemoryDataset.collate(classes), classes)  # as data sets of PyG up to 2.3 save
write("batch", Batch.from_data_list(multi).to_dict(), multi)
write("whole", (*InMemoryDataset.collate(whole), Data), whole)
write("whole-batch", Batch.from_data_list(whole).to_dict(), whole)
write("list", classes, classes)
write("whole-list", whole, whole)  # among them a graph of one vertex
write("pickled", Batch.from_data_list(multi), multi)
write("pickled-list", [Batch.from_data_list(classes)], classes)
(HERE / "several.json").write_text(json.dumps(expected) + "\n")

torch.save(
    InMemoryDataset.collate([Data(edge_index=torch.zeros(2, 1, dtype=torch.long))] * 2),
    HERE / "refused-uncounted.pt",
)


def typed(sizes, g):
    """Papers with labels and authors without features, of which the second graph has none; edges with weights
    one way."""
    papers, authors = sizes
    data = HeteroData()
    data["author"].num_nodes = authors
    data["paper"].x, data["paper"].y = (
        torch.rand(papers, 2, generator=g),
        torch.randint(3, (papers,), generator=g),
    )
    data["paper"].train_mask = torch.rand(papers, generator=g) < 0.6
    count = 4 if authors else 0
    data["author", "writes", "paper"].edge_index = torch.stack(
        [torch.randint(n or 1, (count,), generator=g) for n in (authors, papers)]
    )
    data["author", "writes", "paper"].edge_weight = torch.rand(count, generator=g)
    data["paper", "cites", "paper"].edge_index = torch.randint(papers, (2, 3), generator=g)
    return data


g = torch.Generator().manual_seed(2)
several = [typed(sizes, g) for sizes in ((3, 2), (2, 0), (4, 3))]
b = Batch.from_data_list(several)
torch.save(several, HERE / "several-typed-list.pt")
torch.save(b, HERE / "several-typed-batch.pt")
(HERE / "typed.json").write_text(
    json.dumps(
        {
            "x": b["paper"].x.tolist(),
            "y": b["paper"].y.tolist(),
            "train": b["paper"].train_mask.nonzero().view(-1).tolist(),
            "batch": {t: b[t].batch.tolist() for t in ("paper", "author")},
            "edges": {
                t[1]: sorted(map(list, zip(*b[t].edge_index.tolist())), key=lambda e: (e[1], e[0]))
                for t in b.edge_types
            },
        }
    )
    + "\n"
)
torch.save(
    [
        several[0],
        HeteroData(
            {"paper": several[0]["paper"], ("paper", "cites", "paper"): several[0]["paper", "cites", "paper"]}
        ),
    ],
    HERE / "refused-other-types.pt",
)
torch.save([Batch.from_data_list(classes)] * 2, HERE / "refused-batches.pt")
torch.save(
    [
        Data(x=torch.ones(n, 1), edge_index=torch.tensor([[0], [1]]))
        if n < 4
        else Data(edge_index=torch.tensor([[0], [1]]), num_nodes=n)
        for n in (2, 3, 4)
    ],
    HERE / "refused-mixed-list.pt",
)
torch.save(
    [
        Data(x=torch.ones(2, 1, dtype=d), edge_index=torch.tensor([[0], [1]]))
        for d in (torch.float, torch.double)
    ],
    HERE / "refused-two-dtypes.pt",
)
torch.save(Data(edge_index=torch.tensor([[0], [1]]), batch=torch.tensor([0, 1])), HERE / "refused-joined.pt")
outside = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 2], [1, 1]]))
torch.save(InMemoryDataset.collate([outside, outside]), HERE / "refused-outside.pt")
