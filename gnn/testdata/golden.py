# Writes the golden files: logits, loss and gradients of PyTorch Geometric's own models. How to run,
# on Debian 12:
#   apt-get install --no-install-recommends python3-torch python3-scipy python3-venv
#   /usr/bin/python3 -m venv --system-site-packages /tmp/pyg
#   /tmp/pyg/bin/pip install --no-deps torch_geometric==2.6.1 tqdm==4.66.5 jinja2==3.1.4 markupsafe==3.0.2 \
#       fsspec==2024.6.1
#   /tmp/pyg/bin/python gnn/testdata/golden.py
"""Golden files of the models and of the optimizers, from PyTorch and PyTorch Geometric (PyG).

Each .safetensors file beside this script is one model on one small directed graph (isolated vertices, a hub,
self loops, duplicate edges). Everything is computed in float64 from inputs and parameters that are exact in
float32, and stored in float32: a stored value is right to half a unit in the last place. There is no dropout.
Tensors:

  x                 V x F features, about 40 % zeros (none in the file of max)
  edge_index        2 x E int64, the sources above the destinations, in no order; edge_weight: E, in weighted
                    files only
  edge_attr         E x 4 features of the edges, in files of models that use them
  train             ids of the vertices in the loss, int64
  labels            V int64, -1 unlabelled; or V x C float32 0/1 rows, NaN rows unlabelled (loss "bce")
  param.NAME        the state_dict before the step: parameters and buffers (running statistics)
  logits, loss      the model's output for all vertices; the mean loss over train, shape [1]
  grad.NAME         gradient of every parameter, and grad.x of the features
  after.NAME        buffers after the forward pass (batch norm in training mode)

and __metadata__ strings: model, layers, hidden, heads, output_heads, norm, mode (train or eval), act,
direction (in, out, both), aggr, loss, bias_before_norm, built (how PyG was used), torch, pyg; in files of
decoupled models also decoupled (yes), teleport; edge_features (yes) where attention uses them; residual,
blocks (residual) and jk (cat or max) where they are; of GCNII alpha, theta and shared_weights; of APPNP and
SGC rounds, and of APPNP alpha.

../../optim/testdata/golden.safetensors holds five steps of torch.optim's optimizers and learning rates of its
schedules.
"""

import json
import re
import types
import zlib

import torch
import torch.nn.functional as F
import torch_geometric
from torch_geometric.nn import SAGEConv

from golden_data import (
    EDGE_ATTR,
    EDGES,
    FEATURES,
    HEADS,
    HERE,
    HIDDEN,
    LABELS,
    SEVERAL,
    TRAIN,
    WEIGHT,
    V,
    X,
    save,
    uniform,
)
from golden_nets import EDGE_MODELS, build, build_deep, residual


def randomise(model, rng):
    """Fills every parameter and running statistic, so that no bias is zero and no scale is one."""
    for name, t in model.state_dict().items():
        if name.endswith("running_var"):
            t.copy_(uniform(rng, *t.shape, middle=1, width=0.5))
        elif name.endswith("mean_scale"):
            t.copy_(uniform(rng, *t.shape, middle=0.75, width=0.5))
        elif re.search(r"(norms\.\d+|norm)\.(module\.)?weight$", name):
            t.copy_(uniform(rng, *t.shape, middle=1, width=0.25))
        elif ".att" in name:  # large, so that attention is far from uniform
            t.copy_(uniform(rng, *t.shape, width=2))
        elif t.is_floating_point() and not name.endswith("eps") and ".avg_deg_" not in name:
            t.copy_(uniform(rng, *t.shape, width=0.5 if t.dim() > 1 else 0.25))


def drop_bias_before_batch_norm(model):
    """Removes the biases that batch norm cancels: those of a linear map whose output goes straight into
    it."""
    last = lambda modules: list(modules)[:-1]
    for part in last(getattr(model, "convs", [])):
        if isinstance(part, SAGEConv):
            part.lin_l.bias = None
        elif hasattr(part, "nn"):
            part.nn.lins[-1].bias = None
        elif hasattr(part, "lin") and hasattr(part, "post_nns"):
            part.lin.bias = None
        else:
            part.bias = None
    for mlp in [model] + [c.nn for c in getattr(model, "convs", []) if hasattr(c, "nn")]:
        for part in last(getattr(mlp, "lins", [])):
            part.bias = None


def golden(
    name,
    model,
    layers=2,
    heads=0,
    output_heads=0,
    norm="none",
    mode="train",
    act="relu",
    direction="in",
    aggr="",
    weighted=False,
    loss="ce",
    bias_before_norm=True,
    eps=None,
    decoupled=None,
    add_input=False,
    deep=None,
    jk=None,
    edge_features=False,
):
    """Runs one model forward and backward and writes NAME.safetensors."""
    rng = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    if deep is None:
        net, built = build(
            model, layers, heads, output_heads, norm, act, aggr, direction, decoupled, jk, edge_features
        )
    else:
        net, built = build_deep(model, layers, heads, norm, act, direction, **deep)
    if add_input:
        net.forward = types.MethodType(residual, net)
        built += ", with residual connections"
    if not bias_before_norm:
        drop_bias_before_batch_norm(net)
        built += ", biases just before batch norm removed"
    net = net.double()
    randomise(net, rng)
    if eps is not None:
        for i, conv in enumerate([net.propagation] if decoupled else net.convs):
            conv.eps.fill_(eps * (i + 1))
    net.train(mode == "train")
    before = {k: v.clone() for k, v in net.state_dict().items()}
    features = X
    if aggr == "max":  # no two sources tie: PyTorch would share a gradient among equals
        features = uniform(rng, V, FEATURES)
    x = features.clone().requires_grad_()
    edges = EDGES.flip(0) if direction == "out" else EDGES
    reads_edges = edge_features or model in EDGE_MODELS
    if model == "mlp":
        logits = net(x)
    elif weighted:
        logits = net(x, edges, edge_weight=WEIGHT)
    elif reads_edges:
        logits = net(x, edges, edge_attr=EDGE_ATTR)
    else:
        logits = net(x, edges)
    if loss == "ce":
        value = F.cross_entropy(logits[TRAIN], LABELS[TRAIN])
    else:
        value = F.binary_cross_entropy_with_logits(logits[TRAIN], SEVERAL[TRAIN])
    value.backward()

    tensors = {
        "x": features,
        "edge_index": EDGES,
        "labels": LABELS if loss == "ce" else SEVERAL,
        "train": TRAIN,
        "logits": logits.detach(),
        "loss": value.detach().reshape(1),
        "grad.x": x.grad,
    }
    if weighted:
        tensors["edge_weight"] = WEIGHT
    if reads_edges:
        tensors["edge_attr"] = EDGE_ATTR
    tensors |= {"param." + k: v for k, v in before.items()}
    tensors |= {
        "grad." + k: torch.zeros_like(p) if p.grad is None else p.grad for k, p in net.named_parameters()
    }
    tensors |= {"after." + k: b for k, b in net.named_buffers()}
    tensors = {k: v.float() if v.is_floating_point() else v for k, v in tensors.items()}
    save(
        HERE / f"{name}.safetensors",
        tensors,
        {
            "model": model,
            "layers": str(layers),
            "hidden": str(HIDDEN),
            "heads": str(heads),
            "output_heads": str(output_heads),
            "norm": norm,
            "mode": mode,
            "act": act,
            "direction": direction,
            "aggr": aggr,
            "loss": loss,
            "bias_before_norm": "yes" if bias_before_norm else "no",
            "built": built,
            "torch": torch.__version__,
            "pyg": torch_geometric.__version__,
        }
        | ({"decoupled": "yes", "teleport": str(decoupled["teleport"])} if decoupled else {})
        | ({"residual": "yes"} if add_input else {})
        | ({"jk": jk} if jk else {})
        | ({"edge_features": "yes"} if edge_features else {})
        | {k: str(v) for k, v in (deep or {}).items()},
    )
    return before


def models():
    """Every golden file of a model; returns the state_dicts by file name."""
    out = {}

    def write(name, *args, **kwargs):
        out[name] = golden(name, *args, **kwargs)

    for m in ("mlp", "gcn", "sage", "gat", "gatv2", "gin"):
        h = {"heads": HEADS, "output_heads": HEADS} if m in ("gat", "gatv2") else {}
        h |= {"aggr": "mean"} if m == "sage" else {}
        write(f"{m}-2", m, **h)
        write(f"{m}-3-elu", m, layers=3, act="elu", **h)
        write(f"{m}-3-layer", m, layers=3, norm="layer", **h)
        write(f"{m}-3-batch", m, layers=3, norm="batch", bias_before_norm=False, **h)
        write(f"{m}-2-batch-bias", m, norm="batch", **h)
        write(f"{m}-2-batch-eval", m, norm="batch", mode="eval", bias_before_norm=False, **h)
        write(f"{m}-2-batch-eval-bias", m, norm="batch", mode="eval", **h)
    for m in ("gcn", "sage", "gat", "gatv2", "gin"):
        h = {"heads": HEADS, "output_heads": HEADS} if m in ("gat", "gatv2") else {}
        h |= {"aggr": "mean"} if m == "sage" else {}
        write(f"{m}-3-cat", m, layers=3, norm="layer", jk="cat", **h)
        write(f"{m}-2-jump-max", m, act="elu", jk="max", **h)
    for m in ("gat", "gatv2"):
        write(f"{m}-2-onehead", m, heads=1, output_heads=1)
        write(f"{m}-2-output1-elu", m, heads=HEADS, output_heads=1, act="elu")
    write("gcn-2-weighted", "gcn", weighted=True)
    write("gcn-2-bce", "gcn", loss="bce")
    write("sage-2-max", "sage", aggr="max")
    write("sage-2-max-out", "sage", aggr="max", direction="out")
    write("sage-2-max-both", "sage", aggr="max", direction="both")
    write("sage-2-sum", "sage", aggr="sum")
    write("sage-3-sum-layer", "sage", aggr="sum", layers=3, norm="layer")
    write("sage-2-sum-both", "sage", aggr="sum", direction="both")
    write("gcn-3-gelu", "gcn", layers=3, act="gelu")
    write("gin-2-gelu-batch", "gin", act="gelu", norm="batch", bias_before_norm=False)
    write("resgcn-3-gelu", "resgcn", layers=3, act="gelu", norm="layer", deep={})
    for m in ("mlp", "gcn", "gat", "gin"):
        h = {"heads": HEADS, "output_heads": HEADS} if m == "gat" else {}
        write(f"{m}-3-graph", m, layers=3, norm="graph", **h)
        write(f"{m}-3-pair", m, layers=3, norm="pair", **h)
    write("gcn-2-graph-eval", "gcn", norm="graph", mode="eval")
    write("gcn-2-pair-eval", "gcn", norm="pair", mode="eval")
    write("resgcn-3-graph", "resgcn", layers=3, norm="graph", deep={})
    write("gcn-blocks-3-pair", "gcn", layers=3, norm="pair", deep={"blocks": "residual"})
    write("pna-2", "pna")
    write("pna-3-layer", "pna", layers=3, norm="layer")
    write("pna-2-batch", "pna", norm="batch", bias_before_norm=False)
    write("pna-2-out", "pna", direction="out")
    write("pna-2-cat", "pna", act="elu", jk="cat")
    write("gin-2-eps", "gin", eps=0.25)
    write("gine-2-eps", "gine", eps=0.25)
    write("gine-3-elu", "gine", layers=3, act="elu")
    write("gine-2-layer", "gine", norm="layer")
    write("gine-3-cat", "gine", layers=3, norm="layer", jk="cat")
    write("gine-2-jump-max", "gine", act="elu", jk="max")
    for m in ("gat", "gatv2", "transformer"):
        write(f"{m}-2-edges", m, heads=HEADS, output_heads=HEADS, edge_features=True)
        write(
            f"{m}-3-edges-layer",
            m,
            layers=3,
            norm="layer",
            act="elu",
            heads=HEADS,
            output_heads=HEADS,
            edge_features=True,
        )
        write(f"{m}-2-edges-onehead", m, heads=1, output_heads=1, edge_features=True)
    write("transformer-2", "transformer", heads=HEADS, output_heads=HEADS)
    write("transformer-3-batch", "transformer", layers=3, norm="batch", heads=HEADS, output_heads=HEADS)
    write("transformer-2-out", "transformer", direction="out", heads=HEADS, output_heads=HEADS)
    write("transformer-2-both", "transformer", direction="both", heads=HEADS, output_heads=HEADS)
    for m in ("gcn", "sage", "gat", "gatv2", "gin"):
        h = {"heads": HEADS, "output_heads": HEADS} if m in ("gat", "gatv2") else {}
        h |= {"aggr": "mean"} if m == "sage" else {}
        write(f"{m}-2-out", m, direction="out", **h)
        if m == "gin":  # PyG's DirGNNConv reads conv.in_channels, which GINConv has not
            continue
        write(f"{m}-2-both", m, direction="both", **h)
        if h.get("heads"):
            write(f"{m}-2-both-onehead", m, direction="both", heads=1, output_heads=1)

    def rounds(teleport=0.0):
        return {"teleport": teleport}

    for m in ("gcn", "sage", "gat", "gin"):
        write(f"{m}-3-decoupled", m, layers=3, decoupled=rounds())
        write(f"{m}-2-decoupled-teleport", m, act="elu", norm="layer", decoupled=rounds(0.1))
        write(
            f"{m}-2-decoupled-out",
            m,
            norm="batch",
            bias_before_norm=False,
            direction="out",
            decoupled=rounds(0.2),
        )
    write("gcn-2-decoupled-weighted", "gcn", weighted=True, decoupled=rounds(0.1))
    write("gin-2-decoupled-eps", "gin", eps=0.25, decoupled=rounds())

    def initial(alpha=0.1, theta=0.5, shared_weights=True):
        return {"alpha": alpha, "theta": theta, "shared_weights": shared_weights}

    write("gcnii-2", "gcnii", deep=initial())
    write("gcnii-8-elu", "gcnii", layers=8, act="elu", deep=initial(0.2, 1.5))
    write("gcnii-3-separate", "gcnii", layers=3, deep=initial(0.3, 0.7, False))
    write("gcnii-2-weighted", "gcnii", weighted=True, deep=initial())
    write("gcnii-2-out", "gcnii", direction="out", deep=initial(0.5, 0.4))
    write("appnp-2", "appnp", deep={"alpha": 0.1, "rounds": 10})
    write("appnp-3-weighted", "appnp", layers=3, act="elu", weighted=True, deep={"alpha": 0.3, "rounds": 4})
    write("appnp-2-out", "appnp", direction="out", deep={"alpha": 0.2, "rounds": 5})
    write("sgc-1", "sgc", layers=1, deep={"rounds": 2})
    write("sgc-1-weighted", "sgc", layers=1, weighted=True, deep={"rounds": 3})
    write("sgc-1-out", "sgc", layers=1, direction="out", deep={"rounds": 4})
    for m in ("resgcn", "gcn", "sage", "gat"):
        h = {"heads": HEADS} if m == "gat" else {}
        h["deep"] = {} if m == "resgcn" else {"blocks": "residual"}
        kind = m if m == "resgcn" else m + "-blocks"
        write(f"{kind}-2", m, norm="layer", **h)
        write(f"{kind}-5-elu", m, layers=5, norm="layer", act="elu", **h)
        write(f"{kind}-3-batch", m, layers=3, norm="batch", **h)
        write(f"{kind}-2-batch-eval", m, norm="batch", mode="eval", **h)
        write(f"{kind}-2-out", m, norm="layer", direction="out", **h)
        if m != "gat":  # PyG's DirGNNConv has a lin of the width of one head
            write(f"{kind}-2-both", m, norm="layer", direction="both", **h)
    for m in ("gcn", "sage", "gat"):
        h = {"heads": HEADS, "output_heads": HEADS} if m == "gat" else {}
        h |= {"aggr": "mean"} if m == "sage" else {}
        write(f"{m}-32-residual", m, layers=32, norm="layer", add_input=True, **h)
    return out


STEPS = 5
# By name: (class, arguments, weight decay of the matrix; the bias has none, largest gradient norm or None).
OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {"lr": 0.1}, 0, None),
    "sgd-decay": (torch.optim.SGD, {"lr": 0.1}, 0.05, None),
    "sgd-momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, 0, None),
    "sgd-momentum-decay-clip": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}, 0.05, 2.5),
    "adam": (torch.optim.Adam, {"lr": 0.01}, 0, None),
    "adam-decay": (torch.optim.Adam, {"lr": 0.01}, 0.05, None),
    "adam-decay-clip": (torch.optim.Adam, {"lr": 0.01}, 0.05, 2.5),
    "adam-beta2": (torch.optim.Adam, {"lr": 0.01, "betas": (0.9, 0.8)}, 0, None),
    "adamw": (torch.optim.AdamW, {"lr": 0.01}, 0.05, None),
}


def optimizers():
    """Five steps of each optimizer on one 4 x 3 matrix and one bias of 4, with the same given gradients."""
    rng = torch.Generator().manual_seed(2)
    start = {"weight": uniform(rng, 4, 3), "bias": uniform(rng, 4)}
    grads = [{k: uniform(rng, *v.shape, width=1 + 0.5 * s) for k, v in start.items()} for s in range(STEPS)]
    grads[2]["weight"][0, 0] = 0
    tensors = {f"start.{k}": v for k, v in start.items()}
    tensors |= {f"grad.{s + 1}.{k}": v for s in range(STEPS) for k, v in grads[s].items()}
    settings = {}
    for name, (make, kwargs, decay, clip) in OPTIMIZERS.items():
        params = {k: torch.nn.Parameter(v.clone()) for k, v in start.items()}
        opt = make(
            [
                {"params": [params["weight"]], "weight_decay": decay},
                {"params": [params["bias"]], "weight_decay": 0},
            ],
            **kwargs,
        )
        norms = []
        for s in range(STEPS):
            for k, p in params.items():
                p.grad = grads[s][k].clone()
            if clip:
                norms.append(torch.nn.utils.clip_grad_norm_(list(params.values()), clip))
            opt.step()
            tensors |= {f"{name}.{s + 1}.{k}": p.detach().clone() for k, p in params.items()}
        if clip:
            tensors[f"{name}.norms"] = torch.stack(norms)
        settings[name] = json.dumps(kwargs | {"weight_decay": decay, "clip": clip}, separators=(",", ":"))
    tensors = {k: v.float() for k, v in tensors.items()}

    def rates(schedule):
        opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
        s, out = schedule(opt), []
        for _ in range(12):
            out.append(opt.param_groups[0]["lr"])
            opt.step()
            s.step()
        return torch.tensor(out, dtype=torch.float64)

    # The rate of epochs 1 to 12, from .1: half a cosine over 10 epochs and what follows it; times .5 every 4
    # epochs.
    tensors["schedule.cosine"] = rates(lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=10))
    tensors["schedule.step"] = rates(lambda o: torch.optim.lr_scheduler.StepLR(o, step_size=4, gamma=0.5))
    tensors["schedule.warmup"] = rates(
        lambda o: torch.optim.lr_scheduler.SequentialLR(
            o,
            [
                torch.optim.lr_scheduler.LinearLR(o, start_factor=1 / 4, total_iters=3),
                torch.optim.lr_scheduler.CosineAnnealingLR(o, T_max=9),
            ],
            milestones=[3],
        )
    )
    # Rates by a measure, with progress too small to count, and progress after a fall.
    measures = [0.5, 0.5, 0.50004, 0.4, 0.4, 0.6, 0.6, 0.59, 0.58, 0.57, 0.6, 0.6]
    tensors["measures"] = torch.tensor(measures, dtype=torch.float64)
    for mode in "max", "min":
        opt = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
        s, out = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, mode=mode, factor=0.5, patience=1), []
        for m in measures:
            out.append(opt.param_groups[0]["lr"])
            s.step(m)
        tensors[f"schedule.plateau.{mode}"] = torch.tensor(out, dtype=torch.float64)
    save(
        HERE.parent.parent / "optim" / "testdata" / "golden.safetensors",
        tensors,
        settings | {"steps": str(STEPS), "torch": torch.__version__},
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    models()
    optimizers()
