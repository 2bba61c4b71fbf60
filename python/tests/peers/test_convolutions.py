"""Some of the convolutions that docs/convolutions.md lists train as in PyTorch."""

import pytest
from convolutions import NEAR, results


@pytest.mark.parametrize("name", ["ChebConv", "ARMAConv", "RGCNConv", "PNAConv"])
def test_trains_as_pytorch(name):
    for *_, mesh, result in results([name], ["adam"], ["one worker", "graph=3"]):
        assert not isinstance(result, str) and result <= NEAR, (mesh, result)
