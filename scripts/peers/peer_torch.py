"""Plain PyTorch: sparse CSR products, with the transposed matrix made beforehand. Used where neither DGL nor
PyG runs."""

import torch
import torch.nn.functional as F
from torch import nn

from graphs import Graph, Structure
from models import LAYERS, Model
from stack import Stack, copy


def build(model: Model, graph: Graph, weights: dict[str, torch.Tensor]) -> nn.Module:
    structure = graph.structure if model.name == "sage" else graph.structure.with_self_loops()
    if model.name == "gat":
        layer = lambda i, inputs, outputs: GAT(structure, model.heads, inputs, outputs, last=i == LAYERS - 1)
    else:
        degrees = torch.from_numpy(structure.degrees()).float().clamp(min=1)
        sources, destinations = (
            torch.from_numpy(structure.sources),
            torch.from_numpy(structure.destinations()),
        )
        values = (
            1 / degrees[destinations]
            if model.name == "sage"
            else (degrees[sources] * degrees[destinations]).rsqrt()
        )
        matrix = _csr(structure, values)
        transposed = matrix.t().to_sparse_csr()
        convolution = SAGE if model.name == "sage" else GCN
        layer = lambda i, inputs, outputs: convolution(matrix, transposed, inputs, outputs)
    net = Stack(model, graph.features.shape[1], graph.classes, layer)
    net.load(weights)
    return net


def versions() -> dict[str, str]:
    return {}


def _csr(structure: Structure, values: torch.Tensor) -> torch.Tensor:
    size = (structure.vertices, structure.vertices)
    return torch.sparse_csr_tensor(
        torch.from_numpy(structure.indptr), torch.from_numpy(structure.sources).long(), values, size
    )


class Product(torch.autograd.Function):
    """matrix · x. PyTorch's own backward pass sorts the edges anew each time."""

    @staticmethod
    def forward(ctx, matrix, transposed, x):
        ctx.transposed = transposed
        return torch.sparse.mm(matrix, x, "sum")

    @staticmethod
    def backward(ctx, gradient):
        return None, None, torch.sparse.mm(ctx.transposed, gradient.contiguous(), "sum")


class SAGE(nn.Module):
    def __init__(self, matrix: torch.Tensor, transposed: torch.Tensor, inputs: int, outputs: int):
        super().__init__()
        self.matrix, self.transposed = matrix, transposed
        self.neighbours, self.own = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] > self.neighbours.out_features:
            aggregated = (
                Product.apply(self.matrix, self.transposed, F.linear(x, self.neighbours.weight))
                + self.neighbours.bias
            )
        else:
            aggregated = self.neighbours(Product.apply(self.matrix, self.transposed, x))
        return aggregated + self.own(x)

    def load(self, w: dict[str, torch.Tensor]) -> None:
        pairs = [(self.neighbours.weight, w["lin_l.weight"]), (self.neighbours.bias, w["lin_l.bias"])]
        copy(pairs + [(self.own.weight, w["lin_r.weight"])])


class GCN(nn.Module):
    def __init__(self, matrix: torch.Tensor, transposed: torch.Tensor, inputs: int, outputs: int):
        super().__init__()
        self.matrix, self.transposed = matrix, transposed
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[1] > self.linear.out_features:
            return (
                Product.apply(self.matrix, self.transposed, F.linear(x, self.linear.weight))
                + self.linear.bias
            )
        return self.linear(Product.apply(self.matrix, self.transposed, x))

    def load(self, w: dict[str, torch.Tensor]) -> None:
        copy([(self.linear.weight, w["lin.weight"]), (self.linear.bias, w["bias"])])


class GAT(nn.Module):
    """Coefficients for each edge and head, then a sparse product for each head: nothing has edges × columns
    entries for long."""

    def __init__(self, structure: Structure, heads: int, inputs: int, outputs: int, last: bool):
        super().__init__()
        self.edges, self.last = Edges(structure), last
        width = outputs if last else outputs // heads
        self.linear = nn.Linear(inputs, heads * width, bias=False)
        self.source, self.destination = (
            nn.Parameter(torch.empty(heads, width)),
            nn.Parameter(torch.empty(heads, width)),
        )
        self.bias = nn.Parameter(torch.empty(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads, width = self.source.shape
        edges = self.edges
        x = self.linear(x).view(-1, heads, width)
        source, destination = (x * self.source).sum(-1), (x * self.destination).sum(-1)
        scores = F.leaky_relu(source[edges.sources] + destination[edges.destinations], 0.2)
        largest = torch.segment_reduce(scores.detach(), "max", lengths=edges.lengths)
        exponentials = (scores - largest[edges.destinations]).exp()
        sums = torch.zeros_like(largest).index_add(0, edges.destinations, exponentials)
        coefficients = exponentials / sums[edges.destinations]
        parts = [
            WeightedSum.apply(edges, coefficients[:, h].contiguous(), x[:, h].contiguous())
            for h in range(heads)
        ]
        x = torch.stack(parts, 1)
        return (x.mean(1) if self.last else x.flatten(1)) + self.bias

    def load(self, w: dict[str, torch.Tensor]) -> None:
        copy(
            [
                (self.linear.weight, w["lin.weight"]),
                (self.source, w["att_src"]),
                (self.destination, w["att_dst"]),
                (self.bias, w["bias"]),
            ]
        )


class Edges:
    """The edges by destination, and by source with the place of each in the first order."""

    def __init__(self, structure: Structure):
        self.vertices = structure.vertices
        self.indptr, self.lengths = torch.from_numpy(structure.indptr), torch.from_numpy(structure.degrees())
        self.sources, self.destinations = (
            torch.from_numpy(structure.sources),
            torch.from_numpy(structure.destinations()),
        )
        by_source = torch.sort(self.sources, stable=True)
        self.order = by_source.indices
        self.indptr_by_source = torch.searchsorted(
            by_source.values, torch.arange(self.vertices + 1, dtype=torch.int32)
        )

    def matrix(self, values: torch.Tensor) -> torch.Tensor:
        return torch.sparse_csr_tensor(
            self.indptr, self.sources.long(), values, (self.vertices, self.vertices)
        )

    def transposed(self, values: torch.Tensor) -> torch.Tensor:
        columns = self.destinations[self.order].long()
        return torch.sparse_csr_tensor(
            self.indptr_by_source, columns, values[self.order], (self.vertices, self.vertices)
        )


class WeightedSum(torch.autograd.Function):
    """The sum of x over the edges into each vertex, times a value for each edge. PyTorch's own backward pass
    for the values of a sparse matrix does not keep duplicate edges apart."""

    CHUNK = 1 << 20  # edges whose products are in memory at a time

    @staticmethod
    def forward(ctx, edges: Edges, values: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        ctx.edges = edges
        ctx.save_for_backward(values, x)
        return torch.sparse.mm(edges.matrix(values), x, "sum")

    @staticmethod
    def backward(ctx, gradient: torch.Tensor):
        edges, (values, x) = ctx.edges, ctx.saved_tensors
        gradient = gradient.contiguous()
        pairs = zip(edges.sources.split(WeightedSum.CHUNK), edges.destinations.split(WeightedSum.CHUNK))
        of_values = torch.cat(
            [(x[sources] * gradient[destinations]).sum(1) for sources, destinations in pairs]
        )
        return None, of_values, torch.sparse.mm(edges.transposed(values), gradient, "sum")
