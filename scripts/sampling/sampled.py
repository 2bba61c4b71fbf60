"""One training of a peer on batches that it samples: sampled.py NAME STORE SETTINGS RESULT, in the peer's
environment.

NAME is pyg-neighbor, pyg-cluster or dgl-neighbor, and SETTINGS a JSON object: layers, hidden, dropout, lr,
seed, epochs, patience, target, threads, fan_outs, batch, workers; clusters, the file with the part of each
vertex; sampler, a library. RESULT gets a JSON object: of each epoch the seconds of training (sampling,
fetching of features, forward, backward, step), those of this process's processors, and, after it, the
accuracy on the whole graph. Training ends before its last epoch where the validation accuracy has reached the
target, and so many epochs as patience says are no better. Sampling, fetching and aggregation are the
library's; around them all peers have the same GraphSAGE (mean): batch norm, ReLU and dropout between the
layers. A layer that is narrower than its input transforms before it aggregates, as DGL's does. Sparse
features stay sparse: the first layer's product is PyTorch's embedding_bag. (Dense ones were not measured.)"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "peers"))
import graphs  # noqa: E402
from curves import level, reached  # noqa: E402


class Features:
    """Rows of the features of some vertices: a tensor, or of sparse ones (columns, first entry of each row,
    values)."""

    def __init__(self, store: Path):
        def array(name: str) -> torch.Tensor:
            return torch.from_numpy(np.load(store / f"{name}.npy"))

        self.sparse = not (store / "features.npy").exists()
        if self.sparse:
            self.indptr, self.columns, self.values = (
                array("features_indptr"),
                array("features_indices").long(),
                array("features_data"),
            )
        else:
            self.dense = array("features")

    def __getitem__(self, ids: torch.Tensor):
        if not self.sparse:
            return self.dense[ids]
        first, counts = self.indptr[ids], self.indptr[ids + 1] - self.indptr[ids]
        offsets = counts.cumsum(0) - counts
        entries = torch.arange(int(counts.sum())) + (first - offsets).repeat_interleave(counts)
        return self.columns[entries], offsets, self.values[entries]

    def all(self):
        return (self.columns, self.indptr[:-1], self.values) if self.sparse else self.dense


class Layer(nn.Module):
    """mean over in-neighbours · W + own row · W' + b, as SAGEConv of PyG and DGL."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.neighbours, self.own = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs, bias=False)

    def forward(self, x, destinations: int, mean) -> torch.Tensor:
        """The destinations are the first rows of x; mean(x) has their neighbours' means."""
        if isinstance(x, tuple):
            columns, offsets, values = x
            both = torch.cat([self.neighbours.weight, self.own.weight]).t()
            x = F.embedding_bag(columns, both, offsets, mode="sum", per_sample_weights=values)
            neighbours, own = x.split(self.own.out_features, 1)
            return mean(neighbours) + self.neighbours.bias + own[:destinations]
        if x.shape[1] > self.own.out_features:
            return (
                mean(F.linear(x, self.neighbours.weight)) + self.neighbours.bias + self.own(x[:destinations])
            )
        return self.neighbours(mean(x)) + self.own(x[:destinations])


class Net(nn.Module):
    def __init__(self, features: int, classes: int, layers: int, hidden: int, dropout: float):
        super().__init__()
        widths = [features] + [hidden] * (layers - 1) + [classes]
        self.layers = nn.ModuleList(Layer(*pair) for pair in zip(widths, widths[1:]))
        self.norms = nn.ModuleList(nn.BatchNorm1d(hidden) for _ in range(layers - 1))
        self.dropout = dropout

    def forward(self, x, blocks) -> torch.Tensor:
        """blocks has (destinations, mean) for each layer."""
        for layer, norm, block in zip(self.layers, self.norms, blocks):
            x = F.dropout(F.relu(norm(layer(x, *block))), self.dropout, self.training)
        return self.layers[-1](x, *blocks[-1])


class Graph:
    def __init__(self, store: Path):
        self.features = Features(store)
        self.columns, self.classes = graphs.shape(store)
        self.structure = graphs.Structure(np.load(store / "indptr.npy"), np.load(store / "indices.npy"))
        self.labels = torch.from_numpy(np.load(store / "labels.npy"))
        self.train, self.val, self.test = (
            torch.from_numpy(np.load(store / f"{name}.npy")).flatten() for name in ("train", "val", "test")
        )
        indptr, sources = (
            torch.from_numpy(self.structure.indptr),
            torch.from_numpy(self.structure.sources).long(),
        )
        self.edge_index = torch.stack([sources, torch.from_numpy(self.structure.destinations()).long()])
        degrees = torch.from_numpy(self.structure.degrees())
        values = (1 / degrees.clamp(min=1).float()).repeat_interleave(degrees)
        vertices = self.structure.vertices
        matrix = torch.sparse_csr_tensor(indptr, sources, values, (vertices, vertices))
        self.whole = (vertices, lambda x: torch.sparse.mm(matrix, x.contiguous()))

    @torch.no_grad()
    def accuracies(self, net: Net) -> dict[str, float]:
        """On the whole graph, without sampling."""
        net.eval()
        right = net(self.features.all(), [self.whole] * len(net.layers)).argmax(1) == self.labels
        net.train()
        return {
            name: right[ids].float().mean().item() for name, ids in (("val", self.val), ("test", self.test))
        }


def pyg_neighbor(graph: Graph, settings: dict):
    """NeighborLoader's batches: (features, blocks, labels). A layer works on the vertices and edges that
    later layers need, as PyG's trim_to_layer. torch-sparse's sampler does not count these; the order of its
    edges does."""
    import torch_geometric
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    torch.ops.load_library(settings["sampler"])
    torch_geometric.typing.WITH_TORCH_SPARSE = True
    data = Data(edge_index=graph.edge_index, num_nodes=graph.structure.vertices, y=graph.labels)
    loader = NeighborLoader(
        data,
        settings["fan_outs"],
        input_nodes=graph.train,
        batch_size=settings["batch"],
        shuffle=True,
        is_sorted=True,
        **workers(settings),
    )
    means = pyg_means()

    def batches():
        for batch in loader:
            sources, destinations = batch.edge_index
            counts, ends = [batch.batch_size], [0]
            for _ in settings["fan_outs"]:
                ends.append(int(torch.searchsorted(destinations, counts[-1])))
                counts.append(max(counts[-1], int(sources[: ends[-1]].max()) + 1) if ends[-1] else counts[-1])
            blocks = []
            for end, inputs, outputs in zip(ends[:0:-1], counts[:0:-1], counts[-2::-1]):
                blocks.append((outputs, means(sources[:end], destinations[:end], inputs, outputs)))
            yield graph.features[batch.n_id], blocks, batch.y[: batch.batch_size]

    return batches


def pyg_cluster(graph: Graph, settings: dict):
    """ClusterLoader's batches. Its parts come from a file, as PyG's own call of METIS is in pyg-lib."""
    from torch_geometric.data import Data
    from torch_geometric.loader import ClusterData, ClusterLoader

    parts = torch.from_numpy(np.loadtxt(settings["clusters"], dtype=np.int64))

    class Clusters(ClusterData):
        def _metis(self, edge_index, num_nodes):
            return parts

    train = torch.zeros(graph.structure.vertices, dtype=torch.bool)
    train[graph.train] = True
    ids = torch.arange(graph.structure.vertices)
    # The sparse format csr goes by row: with the edges' ends exchanged these are the destinations, and sorted
    # in a batch.
    data = Data(
        edge_index=graph.edge_index.flip(0),
        num_nodes=graph.structure.vertices,
        y=graph.labels,
        mask=train,
        ids=ids,
    )
    loader = ClusterLoader(
        Clusters(data, int(parts.max()) + 1, log=False),
        batch_size=settings["batch"],
        shuffle=True,
        **workers(settings),
    )
    means = pyg_means()

    def batches():
        for batch in loader:
            destinations, sources = batch.edge_index
            block = (batch.num_nodes, means(sources, destinations, batch.num_nodes, batch.num_nodes))
            yield (
                graph.features[batch.ids],
                [block] * settings["layers"],
                torch.where(batch.mask, batch.y, -1),
            )

    return batches


def pyg_means():
    """PyG's SimpleConv along edges that are sorted by destination."""
    from torch_geometric.nn import SimpleConv

    conv = SimpleConv(aggr="mean")

    def means(sources, destinations, inputs: int, outputs: int):
        edges = torch.stack([sources, destinations])
        return lambda x: conv((x[:inputs], x[:outputs]), edges)

    return means


def dgl_neighbor(graph: Graph, settings: dict):
    import dgl
    import dgl.function as fn

    dgl.seed(settings["seed"])
    s = graph.structure
    g = dgl.graph(
        (
            "csc",
            (torch.from_numpy(s.indptr), torch.from_numpy(s.sources).long(), torch.arange(len(s.sources))),
        ),
        num_nodes=s.vertices,
    )
    sampler = dgl.dataloading.NeighborSampler(settings["fan_outs"][::-1])  # DGL names the outermost hop first
    loader = dgl.dataloading.DataLoader(
        g, graph.train, sampler, batch_size=settings["batch"], shuffle=True, **workers(settings)
    )

    def means(block):
        def mean(x):
            with block.local_scope():
                block.srcdata["x"] = x
                block.update_all(fn.copy_u("x", "m"), fn.mean("m", "h"))
                return block.dstdata["h"]

        return mean

    def batches():
        for inputs, outputs, blocks in loader:
            yield (
                graph.features[inputs],
                [(block.num_dst_nodes(), means(block)) for block in blocks],
                graph.labels[outputs],
            )

    return batches


def workers(settings: dict) -> dict:
    return {"num_workers": settings["workers"], "persistent_workers": settings["workers"] > 0}


def main() -> None:
    name, store, text, result = sys.argv[1:]
    settings = json.loads(text)
    warnings.filterwarnings("ignore")  # PyTorch announces that sparse CSR is a beta feature
    torch.set_num_threads(settings["threads"])
    torch.manual_seed(settings["seed"])
    print("loading", file=sys.stderr, flush=True)
    graph = Graph(Path(store))
    batches = {"pyg-neighbor": pyg_neighbor, "pyg-cluster": pyg_cluster, "dgl-neighbor": dgl_neighbor}[name](
        graph, settings
    )
    net = Net(graph.columns, graph.classes, settings["layers"], settings["hidden"], settings["dropout"])
    optimizer = torch.optim.Adam(net.parameters(), lr=settings["lr"], betas=(0.9, settings["adam-beta2"]))
    curve = []
    for epoch in range(1, settings["epochs"] + 1):
        start, processor, losses = time.perf_counter(), time.process_time(), []
        for features, blocks, labels in batches():
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(net(features, blocks), labels, ignore_index=-1)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        seconds, processor = time.perf_counter() - start, time.process_time() - processor
        curve.append(
            {
                "seconds": seconds,
                "processor": processor,
                "loss": sum(losses) / len(losses),
                "batches": len(losses),
            }
            | graph.accuracies(net)
        )
        print(
            f"epoch {epoch}: {seconds:.2f} s, loss {curve[-1]['loss']:.4f}, validation "
            f"{curve[-1]['val']:.4f}",
            file=sys.stderr,
            flush=True,
        )
        if level(curve, settings["patience"]) and reached(curve, settings["target"]):
            break
    Path(result).write_text(json.dumps({"curve": curve, "torch": torch.__version__}))


if __name__ == "__main__":
    main()
