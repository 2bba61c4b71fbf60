# Writes several-*.pt and several.json. How to run: see golden.py (torch and torch_geometric are enough).
#   python3 graph/pyg/testdata/several.py
"""Files with several graphs as PyTorch Geometric (PyG) writes them, and several.json: the graph that its Batch makes of each."""
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
            x=torch.rand(n, 3, generator=g), edge_index=torch.randint(n, (2, edges), generator=g), edge_weight=torch.rand(edges, generator=g),
            y=labels(n, g), train_mask=torch.rand(n, generator=g) < .5)


def write(name, saved, data):
    torch.save(saved, HERE / f"several-{name}.pt")
    b = Batch.from_data_list(data)
    edges = [[u, v, w] for (u, v), w in zip(b.edge_index.t().tolist(), b.edge_weight.tolist())]
    whole = b.y.size(0) != b.num_nodes
    expected[name] = {
        "x": b.x.tolist(), "y": None if whole else b.y.tolist(), "batch": b.batch.tolist(), "train": b.train_mask.nonzero().view(-1).tolist(),
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

torch.save(InMemoryDataset.collate([Data(edge_index=torch.zeros(2, 1, dtype=torch.long))] * 2), HERE / "refused-uncounted.pt")
typed = HeteroData()
typed["a"].x, typed["b"].x = torch.ones(2, 1), torch.ones(3, 1)
typed["a", "of", "b"].edge_index = torch.tensor([[0, 1], [2, 0]])
torch.save([typed, typed], HERE / "refused-typed-list.pt")
torch.save([Batch.from_data_list(classes)] * 2, HERE / "refused-batches.pt")
torch.save([Data(x=torch.ones(n, 1), edge_index=torch.tensor([[0], [1]])) if n < 4 else Data(edge_index=torch.tensor([[0], [1]]), num_nodes=n)
            for n in (2, 3, 4)], HERE / "refused-mixed-list.pt")
torch.save([Data(x=torch.ones(2, 1, dtype=d), edge_index=torch.tensor([[0], [1]])) for d in (torch.float, torch.double)], HERE / "refused-two-dtypes.pt")
torch.save(Batch.from_data_list([typed, typed]), HERE / "refused-typed-batch.pt")
torch.save(Data(edge_index=torch.tensor([[0], [1]]), batch=torch.tensor([0, 1])), HERE / "refused-joined.pt")
outside = Data(x=torch.ones(2, 1), edge_index=torch.tensor([[0, 2], [1, 1]]))
torch.save(InMemoryDataset.collate([outside, outside]), HERE / "refused-outside.pt")
