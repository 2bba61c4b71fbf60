"""Random numbers in forward, buffers that count steps, and what differs in evaluation: trained as in PyTorch
in float64, which draws weft's numbers there."""

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch_geometric.nn import GCNConv, MessagePassing, SAGEConv
from torch_geometric.utils import dropout_edge

import weft

V, WIDTH, CLASSES, EPOCHS, SEED = 60, 8, 3, 4, 5
G = torch.Generator().manual_seed(3)
X, EDGES, Y = (
    torch.randn(V, WIDTH, generator=G),
    torch.randint(V - 2, (2, 240), generator=G),
    torch.arange(V) % CLASSES,
)
TRAIN = torch.arange(V) % 3 > 0
MESHES = {
    "one worker": {},
    "graph=3": {"parallel": "graph=3"},
    "tensor=2": {"parallel": "tensor=2"},
    "pipeline=2": {"parallel": "pipeline=2", "chunks": 1},
    "offload": {"partitions": 3, "offload": True},
}


@pytest.fixture(scope="module")
def graph():
    return weft.Graph(EDGES, X, Y, train_mask=TRAIN, val_mask=~TRAIN)


class Net(nn.Module):
    """Two layers, and what is done before, between and after them."""

    def __init__(self, before=None, between=None, after=None, extra=0):
        super().__init__()
        self.before, self.between, self.after = before, between, after
        self.first, self.last = GCNConv(WIDTH + extra, 8), SAGEConv(8, CLASSES)
        self.register_buffer("num_batches_tracked", torch.tensor(0))
        self.register_buffer("heat", torch.ones(2))

    def forward(self, x, edge_index):
        x = self.before(self, x) if self.before else x
        h = torch.tanh(self.first(x, edge_index))
        h = self.last(self.between(self, h) if self.between else h, edge_index)
        return self.after(self, h) if self.after else h


def drops_nodes(s, x):
    """GRAND's DropNode."""
    if s.training:
        return torch.bernoulli(torch.full((x.size(0),), 0.6)).unsqueeze(1) * x
    return 0.6 * x


def counts(s, h):
    """A rate that warms up, and one that decays."""
    if s.training:
        s.num_batches_tracked += 1
        s.heat = s.heat * 0.9
    return h * torch.exp(-1 / (1.0 + s.num_batches_tracked)) * s.heat.sum()


def counts_under_no_grad(s, h):
    if s.training:
        with torch.no_grad():
            s.num_batches_tracked.add_(1)
            s.heat[:1].mul_(s.num_batches_tracked)
    return h


def noisy(s, h):
    return h + 0.2 * torch.randn_like(h) * torch.rand(h.size(0), 1) if s.training else h


def other_layer(s, h):
    return s.last.lin_r(h).relu() if s.training else s.last.lin_r(h.tanh()) * 2


MODULES = {
    "DropNode": lambda: Net(drops_nodes),
    "noise": lambda: Net(between=noisy),
    "random features": lambda: Net(
        lambda s, x: torch.cat([x, torch.rand(x.size(0), 3), torch.randn(x.shape[0], 2)], 1), extra=5
    ),
    "in place": lambda: Net(
        between=lambda s, h: (
            h + torch.empty_like(h).uniform_(-0.5, 0.5) + torch.empty_like(h).exponential_(3.0).clamp(max=2)
        )
    ),
    "Gumbel": lambda: Net(between=lambda s, h: F.gumbel_softmax(h, tau=0.7)),
    "counters": lambda: Net(between=counts),
    "counters alone": lambda: Net(after=counts_under_no_grad),
    "evaluation": lambda: Net(
        after=lambda s, h: h if s.training else 2 * h.tanh(),
        between=lambda s, h: h.relu() if s.training else h,
    ),
}


def mixed(x):
    """The finaliser of SplitMix64."""
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


def key_of(seed, epoch, path):
    key = mixed(mixed(seed ^ 0x9E3779B97F4A7C15) ^ epoch)
    for c in path.encode():
        key = (key ^ c) * 0x100000001B3 % 2**64
    return mixed(key)


def philox(counter, key):
    """Philox 4×32-10 (Salmon et al., 2011), of arrays."""
    c, low = [np.asarray(part, np.uint64) for part in counter], np.uint64(2**32 - 1)
    k = [key % 2**32, key >> 32]
    for _ in range(10):
        p, q = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [
            q >> np.uint64(32) ^ c[1] ^ np.uint64(k[0]),
            q & low,
            p >> np.uint64(32) ^ c[3] ^ np.uint64(k[1]),
            p & low,
        ]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return np.stack(c)


def uniform(key, rows, columns):
    """The numbers of [0, 1) that weft draws for so many vertices and columns."""
    vertex, column = np.meshgrid(np.arange(rows), np.arange(columns), indexing="ij")
    word, words = column % 128 // 16, []
    for stream in (1, 2):
        bits = philox((vertex, column // 128, column % 16, np.full_like(vertex, stream)), key)
        words.append(
            np.take_along_axis(bits, word[None] // 2, 0)[0] >> (16 * (word % 2)).astype(np.uint64)
            & np.uint64(0xFFFF)
        )
    return torch.from_numpy((words[0] << np.uint64(8) | words[1] >> np.uint64(8)).astype(np.float64) / 2**24)


class Drawn(TorchDispatchMode):
    """PyTorch draws the numbers that weft draws in an epoch, in the module itself and none of its layers."""

    def __init__(self, seed, epoch):
        super().__init__()
        self.seed, self.epoch, self.calls = seed, epoch, 0

    def next(self, like):
        self.calls += 1
        key = key_of(self.seed, self.epoch, f"#{self.calls}" if self.calls > 1 else "")
        return uniform(key, like.shape[0], math.prod(like.shape[1:])).reshape(like.shape)

    def normal(self, like):
        length = (-2 * torch.log1p(-self.next(like))).sqrt()
        return length * (2 * math.pi * self.next(like)).cos()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made, name = function(*args, **(kwargs or {})), function.__name__.partition(".")[0].strip("_")
        if name in ("rand", "rand_like"):
            made.copy_(self.next(made))
        elif name in ("randn", "randn_like"):
            made.copy_(self.normal(made))
        elif name == "bernoulli":
            made.copy_(self.next(made) < args[0])
        elif name == "uniform":
            made.copy_(args[1] + self.next(made) * (args[2] - args[1]))
        elif name == "exponential":
            made.copy_(-torch.log1p(-self.next(made)) / (args[1] if len(args) > 1 else 1))
        return made


def pytorch(module):
    """The losses of training and of validation in float64, and the buffers after the best epoch."""
    module = copy.deepcopy(module).double()
    steps, losses, valid, buffers = torch.optim.SGD(module.parameters(), lr=0.1), [], [], []
    for epoch in range(1, EPOCHS + 1):
        steps.zero_grad()
        with Drawn(SEED, epoch):
            loss = F.cross_entropy(module.train()(X.double(), EDGES)[TRAIN], Y[TRAIN])
        loss.backward()
        steps.step()
        with torch.no_grad(), Drawn(0, 0):
            valid.append(float(F.cross_entropy(module.eval()(X.double(), EDGES)[~TRAIN], Y[~TRAIN])))
        losses.append(float(loss.detach()))
        buffers.append({name: buffer.clone() for name, buffer in module.named_buffers()})
    return losses, valid, buffers[valid.index(min(valid))]


@pytest.mark.parametrize("name", MODULES)
def test_trains_as_pytorch(name, graph):
    torch.manual_seed(1)
    module = MODULES[name]()
    losses, valid, buffers = pytorch(module)
    for mesh in MESHES if name in ("noise", "counters") else ["one worker", "graph=3"]:
        settings = MESHES[mesh]
        run = weft.train(
            graph,
            model=module,
            optimizer="sgd",
            lr=0.1,
            epochs=EPOCHS,
            seed=SEED,
            select="loss",
            progress=False,
            **settings,
        )
        assert list(run.history["loss"]) == pytest.approx(losses, rel=1e-5), mesh
        assert list(run.history["val_loss"]) == pytest.approx(valid, rel=1e-5), mesh
        for key, buffer in run.module().named_buffers():
            assert torch.allclose(buffer.double(), buffers[key].double(), rtol=1e-6), (mesh, key)


def infinite(h):
    """Zeros whose gradients are infinite."""
    return torch.sqrt(0 * h)


class Gated(MessagePassing):
    """Messages of which evaluation adds others, or takes what is gathered."""

    def __init__(self, to, plain=False):
        super().__init__()
        self.into, self.plain = nn.Linear(WIDTH, to), plain

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=self.into(x))

    def message(self, x_i, x_j):
        z = x_j * torch.sigmoid(x_i - x_j)
        if self.training:
            return z
        return x_j if self.plain else z + infinite(x_j - x_i)


class Skips(nn.Module):
    """What evaluation alone reads passes all layers."""

    def __init__(self):
        super().__init__()
        self.skip, self.layers = (
            nn.Linear(WIDTH, WIDTH),
            nn.ModuleList(GCNConv(WIDTH, WIDTH) for _ in range(3)),
        )
        self.own, self.last = SAGEConv(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES)

    def forward(self, x, edge_index):
        h, skip = x, None if self.training else infinite(self.own(self.skip(x).relu(), edge_index))
        for layer in self.layers:
            h = torch.tanh(layer(h, edge_index))
        return self.last(h if self.training else h + 0.5 * skip + x)


class Messages(nn.Module):
    def __init__(self, plain):
        super().__init__()
        self.first, self.last = Gated(8, plain), SAGEConv(8, CLASSES)

    def forward(self, x, edge_index):
        return self.last(self.first(x, edge_index), edge_index)


def adds_zeros(s, h):
    return h if s.training else h + infinite(h)


UNTAKEN = {
    "rows": lambda: Net(between=adds_zeros, after=adds_zeros),
    "messages": lambda: Messages(False),
    "plain messages": lambda: Messages(True),
    "layers": Skips,
}


@pytest.mark.parametrize("name", UNTAKEN)
def test_what_is_not_taken_is_not_computed(name, graph):
    """No gradient flows through what evaluation alone reads, where it would be 0 times infinity."""
    torch.manual_seed(1)
    module = UNTAKEN[name]()
    losses, valid, _ = pytorch(module)
    for mesh, settings in MESHES.items():
        run = weft.train(
            graph,
            model=module,
            optimizer="sgd",
            lr=0.1,
            epochs=EPOCHS,
            seed=SEED,
            select="loss",
            progress=False,
            **settings,
        )
        assert list(run.history["loss"]) == pytest.approx(losses, rel=1e-5), mesh
        assert list(run.history["val_loss"]) == pytest.approx(valid, rel=1e-5), mesh


def test_edges_are_dropped_anew(graph):
    """By a number of each edge, the same on every mesh."""

    class Dropped(nn.Module):
        def __init__(self):
            super().__init__()
            self.into, self.last = nn.Linear(WIDTH, 8), SAGEConv(8, CLASSES)

        def forward(self, x, edge_index):
            edge_index, _ = dropout_edge(edge_index, p=0.3, training=self.training)
            return self.last(self.into(x), edge_index)

    torch.manual_seed(1)
    module = Dropped()
    settings = {"model": module, "optimizer": "sgd", "lr": 1e-9, "epochs": 3, "progress": False}
    losses = [
        list(weft.train(graph, **settings, **MESHES[mesh]).history["loss"])
        for mesh in ("one worker", "graph=3", "tensor=2")
    ]
    assert len({round(loss, 6) for loss in losses[0]}) == 3
    for others in losses[1:]:
        assert others == pytest.approx(losses[0], rel=1e-5)


def test_compiled_draws_as_torch(graph):
    """Numbers follow torch.manual_seed, on every mesh; an evaluation in which nothing is drawn leaves
    PyTorch's generator."""
    found = []
    for mesh in ("graph=1", "graph=3", "tensor=2"):
        torch.manual_seed(9)
        net = weft.compile(Net(between=noisy), graph, parallel=mesh)
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            found.append(net().detach())
        assert torch.equal(found[-3], found[-2]) and not torch.equal(found[-3], found[-1])
        state = torch.get_rng_state()
        with torch.no_grad():
            assert torch.equal(net.eval()(), net()) and torch.equal(torch.get_rng_state(), state)
    for k, output in enumerate(found):
        assert torch.allclose(output, found[k % 3], atol=1e-5)
    net = weft.compile(MODULES["random features"](), graph).eval()
    with torch.no_grad():
        assert not torch.equal(net(), net())


def test_compiled_counts(graph):
    """Each pass in training counts, of whole numbers, too."""
    torch.manual_seed(1)
    module = Net(between=counts)
    own, net = copy.deepcopy(module).double().train(), weft.compile(module, graph)
    for _ in range(3):
        assert torch.allclose(net().double(), own(X.double(), EDGES), atol=1e-5)
    assert int(module.num_batches_tracked) == 3 and torch.allclose(module.heat.double(), own.heat)
    with torch.no_grad():
        assert torch.allclose(net.eval()().double(), own.eval()(X.double(), EDGES), atol=1e-5)
