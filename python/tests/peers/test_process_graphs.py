"""Nets without a graph, of several processes that mpirun starts, and how vertices are divided."""

import os

import pytest
import torch
from graph_models import GRAPHS, WIDTH, Mesh, Molecules, Plain, Typed, drawn, typed
from test_graphs import assert_close
from test_processes import started
from torch_geometric.data import Batch, Data

import weft

SCRIPT = "process_graphs.py"

# WEFT_LOOPS=all runs all meshes.
MESHES = ["graph=2", "tensor=2"]
if os.environ.get("WEFT_LOOPS") == "all":
    MESHES += ["graph=3", "graph=2,tensor=2"]


@pytest.mark.parametrize("mesh", MESHES)
def test_graphs_of_processes(mesh):
    """Each process gives whole graphs, and has the rows of its vertices: losses, gradients and weights are
    those of one process of PyTorch in float64."""
    count = {"graph=3": 3, "graph=2,tensor=2": 4}.get(mesh, 2)
    status, out, err = started(count, mesh, script=SCRIPT)
    assert status == 0, err
    lines = [line.split() for line in out.splitlines()]
    assert [line[0] for line in lines] == ["meshes", "molecules", "heads", "rollout", "kinds", "edges"]
    for name, *figures in lines:
        assert max(map(float, figures)) < 2e-5, (name, figures)


def test_other_graphs():
    """Processes that call with other graphs, as loaders that shuffle by themselves make them, refuse that by
    one line, and go on."""
    status, out, err = started(2, "--unlike", script=SCRIPT)
    assert status == 0, err
    first, other, new = "(9 vertices, 29 edges)", "(26 vertices, 80 edges)", "(43 vertices, 131 edges)"
    lines = sorted(out.splitlines())
    assert lines[-1] == "they go on", lines
    said = [
        [line.removeprefix(f"rank {rank}: ") for line in lines if line.startswith(f"rank {rank}")]
        for rank in (0, 1)
    ]
    said = [[line.removeprefix("rank 1: ") for line in one] for one in said]  # which tells rank 0
    assert sorted(said[0]) == sorted(said[1]) and len(said[0]) == 6, lines
    reasons = sorted(said[0])
    assert reasons[0].startswith("edge_index: the source of edge 3 is vertex 9, and there are 9"), lines
    assert reasons[1] == "missing a required argument: 'edge_index'", lines
    assert reasons[2].startswith("over processes the graph has features of all vertices and edges"), lines
    pairs = [(other, first), (new, first), (new, "(30 vertices, 92 edges)")]
    for theirs, ours in pairs:
        end = f"{ours}: the processes make the same calls in the same order"
        assert any(f"{theirs}, and rank 0 " in line and line.endswith(end) for line in reasons[3:]), lines


def chain(vertices):
    """Vertices in a row, with edges to both sides."""
    at = torch.arange(vertices - 1)
    ends = torch.stack([torch.cat([at, at + 1]), torch.cat([at + 1, at])])
    return Data(x=torch.randn(vertices, WIDTH), edge_index=ends)


def sent(net, *arguments, **named):
    """The bytes of rows that a forward and a backward pass send."""
    net(*arguments, **named).sum().backward()
    return net.messages()["communication"]["halo"]["bytes"]


def test_partition_by():
    """Whole numbers are partitions, and floats positions. Workers send each other the rows of vertices that a
    part lacks."""
    d, at = chain(8), torch.arange(8)
    net = weft.compile(Plain(), parallel="graph=2", partition_by="by")
    one = sent(net, d.x, d.edge_index, by=at // 4)  # each part lacks one vertex
    assert one > 0
    assert sent(net, d.x, d.edge_index, by=at % 2) == 4 * one
    assert sent(net, d.x, d.edge_index, by=torch.zeros(8, dtype=torch.uint8)) == 0
    mixed = torch.tensor([3, 7, 0, 6, 1, 4, 2, 5])  # the number of each place in the row
    x, ends = torch.empty_like(d.x), mixed[d.edge_index]
    x[mixed] = d.x
    place = torch.empty(8, 1)
    place[mixed, 0] = at.float()
    assert sent(net, x, ends, by=place) == one
    assert sent(weft.compile(Plain(), parallel="graph=2"), x, ends) > one
    again = sent(
        net, x, ends, by=-(place.double() ** 3)
    )  # other positions of the same graph are not looked at
    assert again == one


def test_partition_by_data():
    """A field of a Data, or of the types of a HeteroData, and what forward takes itself."""

    class OfData(Plain):
        def forward(self, data):
            return super().forward(data.x, data.edge_index)

    d = chain(8)
    d.part = torch.arange(8) // 4
    module = OfData()
    assert_close(weft.compile(module, parallel="graph=2", partition_by="part")(d), module(d).double())
    plain = Plain()
    net = weft.compile(plain, parallel="graph=2", partition_by="x")
    assert_close(net(d.x, d.edge_index), plain(d.x, d.edge_index).double())
    kinds, hetero = Typed(), typed(3)
    net = weft.compile(kinds, parallel="graph=3", partition_by="pos")
    made = net(
        hetero.x_dict, hetero.edge_index_dict, pos={name: x[:, :2] for name, x in hetero.x_dict.items()}
    )
    for name, theirs in kinds(hetero.x_dict, hetero.edge_index_dict).items():
        assert_close(made[name], theirs.double())


def test_partition_of_batches():
    """The graphs of a batch are divided, with positions and without."""
    module = Molecules().eval()
    for settings in ({}, {"partition_by": "pos"}, {"partition": "metis"}):
        net = weft.compile(module, parallel="graph=3", **settings)
        for some in (GRAPHS[:2], GRAPHS[2:], [drawn(1, 3)], [drawn(500, 3), drawn(300, 4)]):
            d = Batch.from_data_list(some)
            pos = {"pos": d.pos} if "partition_by" in settings else {}
            made = net(d.x, d.edge_index, d.edge_attr, d.batch, **pos)
            assert_close(made, module(d.x, d.edge_index, d.edge_attr, d.batch).double())


@pytest.mark.parametrize(
    "value,reason",
    [
        (None, "partition_by: the call gives no 'by': give it, as net"),
        (torch.arange(9), "partition_by: by is torch.int64 .9,.: give floats of 8 vertices × dimensions"),
        (torch.zeros(8), "partition_by: by is torch.float32 .8,.: give floats of 8 vertices"),
        (torch.zeros(8, 0), "partition_by: by has positions of different dimensions, or of none"),
        (torch.full((8, 2), torch.nan), "partition_by: by has numbers that are not finite"),
        (torch.arange(8) // 3, "partition_by: vertex 6 is in partition 2, and there are 2, numbered from 0"),
        (-torch.arange(8), "partition_by: vertex 1 is in partition -1, and there are 2"),
    ],
)
def test_partition_by_refused(value, reason):
    d, net = chain(8), weft.compile(Plain(), parallel="graph=2", partition_by="by")
    with pytest.raises(weft.Refused, match=reason):
        net(d.x, d.edge_index, **({} if value is None else {"by": value}))
    net(d.x, d.edge_index, by=torch.arange(8) % 2)  # it has not ended


def test_partition_by_refused_settings():
    with pytest.raises(weft.Refused, match="partition_by: is 3: give the name of a tensor of the call"):
        weft.compile(Mesh(), partition_by=3)
    with pytest.raises(weft.Refused, match="partition_by: and partition='metis' are both given"):
        weft.compile(Mesh(), partition_by="pos", partition="metis")
