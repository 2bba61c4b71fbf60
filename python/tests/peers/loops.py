"""Lists the loops that tests compare with PyTorch in float64: name, losses, optimizers, module, settings,
published as.

WEFT_PROGRAM=bin/weft PYTHONPATH=python/src python python/tests/peers/loops.py
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import pytest

#: What is called and is no loss of its own.
_OTHERS = {"normalize", "softmax", "log_softmax", "sigmoid", "one_hot", "logsigmoid"}

#: The loops of published repositories, by their names, and those of their modules where these say it.
_PUBLISHED = {
    "views": "GRACE",
    "infomax": "DGI",
    "bootstrapped": "BGRL",
    "masked": "GraphMAE",
    "pairs": "GAE",
    "rollout mesh": "MeshGraphNet",
    "rollout weather": "GraphCast",
    "distilled": "knowledge distillation",
    "cotrained": "co-training by label noise",
    "operator": "graph kernel network",
    "explained": "GNNExplainer",
}


class Collected:
    """Prints a line for each test that runs a loop."""

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        lines = [line for item in session.items if (line := _line(item))]
        print(*sorted(lines), sep="\n")
        print(f"{len(lines)} loops, of {len({line.split()[0] for line in lines})} kinds")


def _line(item: pytest.Item) -> str:
    call = getattr(item, "callspec", None)
    if call is None or "loop" not in call.params:
        return ""
    loop = call.params["loop"]
    text = inspect.getsource(loop)
    losses = set(re.findall(r"F\.(\w+)\(", text)) - _OTHERS
    losses |= {
        name for name in ("logsigmoid", "norm", "logsumexp", "pow") if not losses and f"{name}(" in text
    }
    optimizers = set(re.findall(r"optim\.([A-Z]\w+)\(", text)) - {"swa_utils"}
    kind = item.name.partition("[")[0].removeprefix("test_")
    shown = (
        f"{Path(item.path).stem.removeprefix('test_')}.{loop.__name__}",
        "+".join(sorted(losses)) or "-",
        "+".join(sorted(optimizers)) or "-",
        call.params["name"],
        call.params["mesh"] + ("" if kind == "as_pytorch" else f" {kind}"),
    )
    names = (loop.__name__, f"{loop.__name__} {call.params['name']}")
    return "  ".join((*shown, *(_PUBLISHED[name] for name in names if name in _PUBLISHED)))


if __name__ == "__main__":
    here = Path(__file__).parent
    files = [str(here / f"test_{name}.py") for name in ("loops", "loops_card", "loops_typed", "loop_edges")]
    options = ["--collect-only", "-p", "no:terminal", "-p", "no:cacheprovider"]
    sys.exit(pytest.main([*options, *files], plugins=[Collected()]))
