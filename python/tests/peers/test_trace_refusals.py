"""Modules that have no program: what they do, and what is said of it."""

import pytest
import torch
import torch.nn.functional as F
import torch_geometric.nn as g
from torch import nn
from torch_geometric.nn import GCNConv, SAGEConv
from torch_geometric.utils import scatter, softmax
from trace_models import DEGREES, Call, Typed
from traced import OUT, WIDTH

import weft
from weft._trace import trace

pytestmark = pytest.mark.usefixtures("in_double")


class Batch(nn.Module):
    def forward(self, x, edge_index, batch):
        return x


class Attr(nn.Module):
    def forward(self, x, edge_index, edge_attr):
        return x


class Adjacency(nn.Module):
    def forward(self, x, adj):
        return torch.spmm(adj, x)


class Nothing(nn.Module):
    def forward(self):
        return DEGREES


def branch(self, x, edges):
    return self.lin(x) if x.mean() > 0 else -self.lin(x)


class InvertedSquare(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


def averaged(self, x, edges):
    self.m = 0.9 * self.m + 0.1 * self.lin(x).mean(0)
    return self.lin(x) - self.m


def clamped(self, x, edges):
    with torch.no_grad():
        self.lin.weight.clamp_(-0.1, 0.1)
    return self.lin(x)


def hooked(self, x, edges):
    h = self.lin(x)
    h.register_hook(lambda gradient: 2 * gradient)
    return h


def mixed(self, x, edges):
    with torch.autocast("cpu", torch.bfloat16):
        return self.lin(x)


def doubled(self, x, edges):
    x *= 2
    return self.lin(x)


REFUSALS = {
    "half": (lambda s, x, e: s.lin(x.half().to(x.dtype)), "float16, which rounds: .*precision='bf16'"),
    "autocast": (mixed, "computes under autocast"),
    "bits": (lambda s, x, e: s.lin(x) * ~x[:, :1].long(), "bitwise_not works on the bits of whole numbers"),
    "bits of two": (lambda s, x, e: s.lin(x) * (x[:, :1].long() & 3), "and works on the bits"),
    "bytes": (lambda s, x, e: s.lin(x) * (x[:, :1] * 99).to(torch.uint8), "uint8, whose numbers wrap"),
    "sum of bytes": (
        lambda s, x, e: s.lin(x) * ((x[:, :1] > 0).byte() - 1),
        "sub gives uint8, whose numbers wrap",
    ),
    "input": (
        doubled,
        r"x \*= 2: forward writes into x, with which it is called again: begin with x = x.clone",
    ),
    "buffer that changes": (averaged, "forward changes m: "),
    "buffer that is written": (lambda s, x, e: s.lin(x) - s.m.mul_(0.9), r"m.mul_.*forward changes m: "),
    "weight that is written": (
        clamped,
        r"clamp_.*forward (changes lin.weight|writes into a parameter or a buffer): ",
    ),
    "spectral norm": (
        lambda s, x, e: s.spectral(x),
        "forward (changes spectral.parametrizations.weight.0._u|writes into a parameter or a buffer): ",
    ),
    "hook": (hooked, "a hook changes a gradient"),
    "gradient by frequency": (
        lambda s, x, e: F.embedding((x[:, 0] > 0).long(), s.lin.weight, scale_grad_by_freq=True),
        "scale_grad_by_freq divides",
    ),
    "numpy": (lambda s, x, e: s.lin(x) * float(x.numpy().mean()), r"forward leaves PyTorch by .numpy\(\)"),
    "noise of parameters": (
        lambda s, x, e: s.lin(x) + torch.randn_like(s.m),
        "randn_like draws random numbers of no rows",
    ),
    "own generator": (
        lambda s, x, e: s.lin(x + torch.rand(x.shape, generator=torch.Generator())),
        "rand draws random numbers of a generator of its own|Generator",
    ),
    "counter of rows": (
        lambda s, x, e: s.lin(x) + s.m.add_(x.mean()) if s.training else s.lin(x),
        "forward changes m: ",
    ),
    "norm in training": (
        lambda s, x, e: (
            nn.functional.batch_norm(s.lin(x), s.m, s.v, training=True) if s.training else s.lin(x)
        ),
        "other operations in evaluation than in training",
    ),
    "largest": (lambda s, x, e: s.lin(x[x.sum(-1).topk(3)[1]]), "topk orders"),
    "sorted": (lambda s, x, e: s.lin(x.sort(0)[0]), "sort orders"),
    "all pairs": (lambda s, x, e: (x @ x.t()).softmax(-1) @ s.lin(x), "each pair of vertices"),
    "distances": (lambda s, x, e: torch.cdist(x, x) @ s.lin(x), "all pairs of vertices"),
    "attention": (
        lambda s, x, e: s.lin(nn.functional.scaled_dot_product_attention(x, x, x)),
        "all pairs|each pair",
    ),
    "branch": (branch, r"test_trace_refusals.py:\d+: .*if x.mean.*depends on values"),
    "number": (lambda s, x, e: s.lin(x) * float(x.max()), "depends on values"),
    "some vertices": (lambda s, x, e: s.lin(x[x[:, 0] > 0]), "some of the vertices"),
    "first vertex": (lambda s, x, e: s.lin(x) - s.lin(x)[0], "by its position"),
    "first vertices": (lambda s, x, e: s.lin(x)[:5], "by their position"),
    "pooling": (lambda s, x, e: g.global_mean_pool(s.lin(x), (x[:, 0] > 0).long(), 2), "pooling of vertices"),
    "table": (lambda s, x, e: s.lin(x) + s.conv.lin.weight[:, :1].repeat(2, OUT), "as features"),
    "vertex numbers": (lambda s, x, e: s.lin(x) + torch.arange(x.size(0)).view(-1, 1), "numbers of vertices"),
    "dropout in evaluation": (lambda s, x, e: F.dropout(s.lin(x)), "training=self.training"),
    "two results": (lambda s, x, e: (s.lin(x), x), "a tuple, instead of one tensor"),
    "softmax of vertices": (lambda s, x, e: s.lin(x).softmax(0), "softmax over all vertices"),
    "counted vertices": (lambda s, x, e: softmax(s.lin(x)[e[0]], e[1]), "num_nodes=x.size"),
    "sparse": (
        lambda s, x, e: torch.sparse.sum(torch.sparse_coo_tensor(e, x[e[0], 0], (x.size(0),) * 2), 1),
        "sparse matrix: .* propagate",
    ),
    "batch norm of positions": (
        lambda s, x, e: nn.functional.batch_norm(
            s.lin(x).unsqueeze(2), s.m, s.v, training=s.training
        ).squeeze(2),
        "batch norm of other rows",
    ),
    "own gradient": (lambda s, x, e: InvertedSquare.apply(s.lin(x)), "gradient of its own"),
    "algebra": (lambda s, x, e: s.lin(x) @ torch.linalg.inv(s.conv.lin.weight), "linear algebra"),
    "sequence": (lambda s, x, e: s.mailbox(x, e), "depends on values|sequence"),
    "length": (lambda s, x, e: x.new_zeros(len(x), OUT) + s.lin(x), "len.x.*x.size"),
    "length in a scatter": (lambda s, x, e: scatter(s.lin(x)[e[0]], e[1], 0, len(x)), "len.x.*x.size"),
    "data": (lambda s, x, e: x @ s.lin.weight.data.t(), r"write \.detach"),
    "dict": (lambda s, x, e: {"logits": s.lin(x)}, "a dict, instead of one tensor"),
    "scripted": (lambda s, x, e: s.scripted(x), r"scripted is of torch\.jit"),
    "sequence of vertices": (lambda s, x, e: s.gru(x)[0], "over all vertices"),
    "sum along vertices": (lambda s, x, e: s.lin(x).cumsum(0), "cumsum orders"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refuses(name):
    function, words = REFUSALS[name]
    module = Call(
        function,
        gru=nn.GRU(WIDTH, OUT),
        mailbox=SAGEConv(WIDTH, OUT, "lstm"),
        spectral=torch.nn.utils.parametrizations.spectral_norm(nn.Linear(WIDTH, OUT)),
    )
    module.register_buffer("m", torch.zeros(OUT))
    module.register_buffer("v", torch.ones(OUT))
    if name == "scripted":
        module.scripted = torch.jit.script(nn.Linear(WIDTH, OUT))
    with pytest.raises(weft.Refused, match=words) as refused:
        trace(module, features=WIDTH)
    assert str(refused.value).startswith("model: ") and "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (Batch(), "forward takes batch"),
        (Attr(), "edge_attr, which the graph lacks"),
        (Typed(), "types of edges as edge_attr"),
        (Nothing(), "names no argument: write forward.self, x, edge_index., and edge_attr"),
        (Adjacency(), "edge_index, 2 × E.*sparse_coo_tensor"),
        ("gcn", "no torch.nn.Module"),
        (GCNConv(5, 3), r"weft calls module\(x, edge_index\)"),
    ],
)
def test_refuses_a_call(module, words):
    with pytest.raises(weft.Refused, match=words):
        trace(module, features=WIDTH)
