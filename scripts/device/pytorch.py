"""What PyTorch and PyG do on a card: an object of JSON a line. Run by check.py, whose machine has both.

pytorch.py rates                             copies and products
pytorch.py weights FEATURES CLASSES FOLDER   initial weights of each model as PyG draws them, with PyG's names
pytorch.py train STORE FOLDER EPOCHS DEVICE FORMS MODELS
                                             epochs of PyG's models from these weights, in forms of EdgeIndex,
                                             csr, edge_index, compiled; and in the fastest form with TF32, and
                                             in bfloat16"""

import contextlib
import json
import statistics
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))
import torch
from safetensors.torch import load_file, save_file
from torch_geometric import EdgeIndex

import graphs
import peer
import peer_pyg
from models import MODELS

ROUNDS = 10
CLOSE = 0.2  # relative, of the first losses in other precisions


def seconds(work) -> float:
    """The median of some rounds, after one."""
    took = []
    for _ in range(ROUNDS + 1):
        torch.cuda.synchronize()
        start = time.perf_counter()
        work()
        torch.cuda.synchronize()
        took.append(time.perf_counter() - start)
    return statistics.median(took[1:])


def rates() -> None:
    """Bytes a second, those that a copy reads and those that it writes, and floating-point operations a
    second."""
    size = 1 << 30
    there = torch.empty(size, dtype=torch.uint8, device="cuda")
    other, here = torch.empty_like(there), torch.empty(size // 4, dtype=torch.uint8)
    pinned, quarter = here.pin_memory(), there[: size // 4]
    figures = {
        "torch": torch.__version__,
        "card": torch.cuda.get_device_name(),
        "copy": 2 * size / seconds(lambda: other.copy_(there)),
        "to_device": len(here) / seconds(lambda: quarter.copy_(here)),
        "to_device_pinned": len(here) / seconds(lambda: quarter.copy_(pinned)),
        "to_host": len(here) / seconds(lambda: here.copy_(quarter)),
        "to_host_pinned": len(here) / seconds(lambda: pinned.copy_(quarter)),
    }
    for name, kind in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        for rows, n in ((8192, 8192), (200_000, 256)):
            x, w = (torch.randn(k, n, device="cuda", dtype=kind) for k in (rows, n))
            figures[f"product_{name}_{rows}x{n}x{n}"] = 2 * rows * n * n / seconds(lambda: x @ w)
    print(json.dumps(figures), flush=True)


def weights(features: str, classes: str, folder: str) -> None:
    for name, model in MODELS.items():
        torch.manual_seed(0)
        network = peer_pyg.network(model, graphs.Columns(int(features), 0, int(classes)))
        save_file(network.state_dict(), Path(folder) / f"{name}.safetensors")


def initial(model, graph, folder: str) -> dict:
    """The weights of weights(), where the folder has some for this graph; else others."""
    drawn = peer_pyg.network(model, graph.columns()).state_dict()
    with contextlib.suppress(FileNotFoundError):
        kept = load_file(Path(folder) / f"{model.name}.safetensors")
        if all(kept[name].shape == tensor.shape for name, tensor in drawn.items()):
            return kept
    return drawn


def built(model, graph, weights: dict, form: str, device: str):
    """PyG's model in a form of what it takes for a graph: a list of edges, also compiled, torch.sparse's CSR,
    or PyG's EdgeIndex, whose cache has the rows and their transpose."""
    net = peer_pyg.build(model, graph, weights, listed=form != "csr").to(device)
    if form == "EdgeIndex":
        size = (graph.structure.vertices,) * 2
        net.adjacency = EdgeIndex(net.adjacency, sparse_size=size, sort_order="col").fill_cache_()
    if form == "compiled":
        from peer_compile import Compiled  # which not every PyTorch has

        return Compiled(net)
    return net


def precise(precision: str, device: str, loss_of):
    """A loss in float32, with its products as TF32, or with what autocast makes bfloat16. Autocast keeps
    weights in bfloat16 until its context ends, which is that of one pass."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"

    def loss():
        with torch.autocast(device, torch.bfloat16, enabled=precision == "bf16"):
            return loss_of()

    return loss


def train(store: str, folder: str, epochs: str, device: str, forms: str, models: str) -> None:
    """A model that fails is a line that says why, unless the card is lost with it. The form that is fastest
    in float32 is trained in other precisions, too, or the next one that can be."""
    graph = graphs.read(Path(store))
    features, labels, chosen = (
        torch.from_numpy(a).to(device) for a in (graph.features, graph.labels, graph.train)
    )
    curves: dict[str, list[float]] = {}  # of the first form
    ranks: dict[str, list[tuple[float, str]]] = {name: [] for name in models.split(",")}

    def run(name: str, form: str, precision: str) -> bool:
        model, line = MODELS[name], {"model": name, "form": form, "precision": precision}
        try:
            net = built(model, graph, initial(model, graph, folder), form, device)
            if device == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            loss = precise(precision, device, peer.of_labels(net, features, labels, chosen))
            line["losses"], line["epoch_seconds"] = peer.run(net, loss, int(epochs))
            line["peak_bytes"] = torch.cuda.max_memory_allocated() if device == "cuda" else 0
            usual = curves.setdefault(name, line["losses"])
            if any(
                abs(loss - expected) > CLOSE * expected for loss, expected in zip(line["losses"][:3], usual)
            ):
                raise ValueError(f"its losses are others than in float32: {line['losses'][:3]}")
            if precision == "f32":
                ranks[name].append((statistics.median(line["epoch_seconds"][1:]), form))
        except (Exception, SystemExit) as error:  # the other models go on
            line["failed"] = (str(error).strip() or repr(error)).splitlines()[0]
        print(json.dumps(line), flush=True)
        return "failed" not in line

    for form in forms.split(","):
        for name in ranks:
            if (form, name) != ("csr", "gat"):  # attention has values for each edge
                run(name, form, "f32")
    for precision in ("tf32", "bf16"):
        for name, forms_of in ranks.items():
            any(run(name, form, precision) for _, form in sorted(forms_of))


if __name__ == "__main__":
    warnings.filterwarnings("ignore")  # PyTorch announces that sparse CSR is a beta feature
    {"rates": rates, "weights": weights, "train": train}[sys.argv[1]](*sys.argv[2:])
