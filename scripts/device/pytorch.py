"""What PyTorch and PyG do on a card: an object of JSON a line. Run by check.py, whose machine has both.

pytorch.py rates                             copies and products
pytorch.py weights FEATURES CLASSES FOLDER   initial weights of each model as PyG draws them, with PyG's names
pytorch.py train STORE FOLDER EPOCHS DEVICE  epochs of PyG's models from these weights: on a list of edges, on torch.sparse's CSR
                                             and, after these, compiled"""

import json
import statistics
import sys
import time
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))
import torch
from safetensors.torch import load_file, save_file

import graphs
import peer
import peer_pyg
from models import MODELS

ROUNDS = 10


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
    """Bytes a second, those that a copy reads and those that it writes, and floating-point operations a second."""
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


def train(store: str, folder: str, epochs: str, device: str) -> None:
    """A model that fails is a line that says why, unless the card is lost with it."""
    graph = graphs.read(Path(store))
    features, labels, chosen = (torch.from_numpy(a).to(device) for a in (graph.features, graph.labels, graph.train))

    def listed(*of):
        return peer_pyg.build(*of, listed=True)

    def compiled(*of):
        from peer_compile import Compiled  # which not every PyTorch has

        return Compiled(listed(*of))

    forms = {"edge_index": listed, "csr": peer_pyg.build, "compiled": compiled}
    for form, build in forms.items():
        for name, model in MODELS.items():
            if form == "csr" and name == "gat":
                continue  # attention has values for each edge
            line = {"model": name, "form": form}
            try:
                net = build(model, graph, load_file(Path(folder) / f"{name}.safetensors")).to(device)
                if device == "cuda":
                    torch.cuda.empty_cache()
                    torch.cuda.reset_peak_memory_stats()
                line["losses"], line["epoch_seconds"] = peer.run(net, peer.of_labels(net, features, labels, chosen), int(epochs))
                line["peak_bytes"] = torch.cuda.max_memory_allocated() if device == "cuda" else 0
            except (Exception, SystemExit) as error:  # the other models go on
                line["failed"] = (str(error).strip() or repr(error)).splitlines()[0]
            print(json.dumps(line), flush=True)
            net = None


if __name__ == "__main__":
    warnings.filterwarnings("ignore")  # PyTorch announces that sparse CSR is a beta feature
    {"rates": rates, "weights": weights, "train": train}[sys.argv[1]](*sys.argv[2:])
