"""Random flags of weft train."""

# Flags with values, and how likely a set has the flag.
COMMON = {
    "layers": (0.5, [1, 2, 3]),
    "hidden": (0.8, [4, 6, 8, 12, 24]),
    "dropout": (0.5, [0, 0, 0.3]),
    "input-dropout": (0.1, [0.2]),
    "norm": (0.4, ["none", "batch", "layer", "graph", "pair"]),
    "normalize-features": (0.2, ["none", "row", "standard"]),
    "residual": (0.15, [True]),
    "activation": (0.2, ["none", "elu", "tanh", "gelu", "leaky-relu", "sigmoid"]),
    "blocks": (0.15, ["residual"]),
    "jk": (0.15, ["cat", "max"]),
    "direction": (0.15, ["out", "both"]),
    "decoupled": (0.12, [True]),
    "teleport": (0.05, [0.2]),
    "rounds": (0.08, [1, 3]),
    "node-embedding": (0.05, [4]),
    "aggregation-order": (0.1, ["transform", "aggregate"]),
    "lr": (0.5, [0.003, 0.01, 0.05]),
    "weight-decay": (0.2, [5e-4]),
    "drop-edge": (0.1, [0.3]),
    "label-input": (0.08, [0.4]),
    "optimizer": (0.3, ["adam", "adamw", "sgd"]),
    "momentum": (0.05, [0.9]),
    "adam-beta2": (0.05, [0.9]),
    "schedule": (0.15, ["cosine", "step", "plateau", "linear"]),
    "warmup": (0.08, [2]),
    "loss": (0.15, ["focal", "cross-entropy", "mae", "huber", "mse"]),
    "class-weights": (0.1, ["balanced"]),
    "label-smoothing": (0.08, [0.1]),
    "calibrate": (0.08, ["temperature", "isotonic"]),
    "clip": (0.1, [0.5]),
    "patience": (0.2, [1, 3]),
    "eval-every": (0.2, [1, 2, 3]),
    "select": (0.3, ["metric", "loss"]),
    "metric": (
        0.4,
        [
            "accuracy",
            "macro-f1",
            "micro-f1",
            "roc-auc",
            "average-precision",
            "rmse",
            "mae",
            "r2",
            "mrr",
            "hits@10",
            "precision@5",
            "recall@fpr=0.2",
            "f1:c1",
        ],
    ),
    "seed": (0.5, [1, 2, 3]),
    "split": (0.2, [1, "random:50/30/20", "stratified:60/20/20", "per-class=5,5"]),
    "init-scheme": (0.1, ["glorot", "torch"]),
    "threads": (0.7, [1, 2]),
    "recompute": (0.1, ["blocks", "none"]),
    "precision": (0.2, ["bf16"]),
    "memory-limit": (0.05, ["100MiB", "40KiB"]),
}
OF_MODELS = {
    "heads": (0.6, [1, 2, 4]),
    "output-heads": (0.3, [2]),
    "transform-dropout": (0.2, [0.2]),
    "attention-dropout": (0.3, [0.3]),
    "use-edge-features": (0.3, [True]),
    "num-blocks": (0.2, [2]),
    "bases": (0.3, [2]),
    "aggregation": (0.4, ["max", "sum", "mean"]),
    "alpha": (0.3, [0.3]),
    "theta": (0.3, [1]),
    "shared-weights": (0.3, ["false"]),
    "conv-weight-decay": (0.2, [0.01]),
}
MODELS = {
    "mlp": [],
    "gcn": [],
    "sage": ["aggregation"],
    "gat": ["heads", "output-heads", "transform-dropout", "attention-dropout", "use-edge-features"],
    "gatv2": ["heads", "output-heads", "transform-dropout", "attention-dropout", "use-edge-features"],
    "transformer": ["heads", "output-heads", "attention-dropout", "use-edge-features"],
    "gin": [],
    "gine": [],
    "pna": [],
    "rgcn": ["num-blocks", "bases"],
    "gcnii": ["alpha", "theta", "shared-weights", "conv-weight-decay"],
    "resgcn": [],
    "appnp": ["alpha"],
    "sgc": [],
}
OF_TASKS = {
    "vertex": {},
    "edge": {
        "decoder-layers": (0.5, [1, 3]),
        "decoder-hidden": (0.3, [5]),
        "out-features": (0.3, [5]),
        "pass-messages": (0.2, ["all", "earlier"]),
    },
    "link": {
        "decoder": (0.4, ["distmult", "dot"]),
        "out-features": (0.3, [5]),
        "negatives": (0.3, [2]),
        "eval-negatives": (0.3, [5]),
        "link-split": (0.3, ["70/15/15"]),
    },
}
MESHES = [
    "", "", "", "graph=2", "graph=3", "tensor=2", "graph=2,tensor=2", "pipeline=2", "graph=2,pipeline=2",
    "tensor=2,pipeline=2",
]  # fmt: skip
OF_AXES = {
    "graph": {
        "partition": (0.3, ["metis", "random", "stream"]),
        "balance": (0.2, ["edges", "train"]),
        "halo": (0.3, ["rows", "cover", "auto"]),
        "keep-halo": (0.15, [True]),
        "prefetch": (0.1, [0, 2]),
        "wire": (0.15, ["bf16", "int8"]),
        "wire-schedule": (0.1, ["varco"]),
    },
    "tensor": {"aggregation-chunks": (0.3, [1, 2])},
    "pipeline": {
        "chunk-method": (0.2, ["random", "merged"]),
        "history-period": (0.2, [2]),
        "history-start": (0.2, ["warm"]),
        "chunk-order": (0.3, ["fixed", "shuffle"]),
        "stale-gradients": (0.2, ["keep", "drop"]),
    },
}


def drawn(chance, task, folder):
    """The flags of a set, by name. Many sets have some that the model, the task or the mesh refuses."""
    flags = {"model": chance.choice(list(MODELS)), "epochs": chance.choice([2, 3, 5, 8])}
    tables = [COMMON, {name: OF_MODELS[name] for name in MODELS[flags["model"]]}, OF_TASKS[task]]
    if chance.random() < 0.1:
        tables.append(OF_MODELS)
    if mesh := chance.choice(MESHES):
        flags["parallel"] = mesh
        tables += [table for axis, table in OF_AXES.items() if axis in mesh]
        if "pipeline" in mesh:
            partitions = 2 if "graph" in mesh else 1
            flags["layers"], flags["chunks"] = (
                chance.choice([2, 3, 4]),
                partitions * chance.choice([1, 1, 1, 2, 3]),
            )
    if "pipeline" not in mesh and chance.random() < 0.2:
        flags["partitions"] = chance.choice([3, 4])
        if chance.random() < 0.5:
            flags["offload"] = str(folder / "rest")
    for table in tables:
        for name, (likely, values) in table.items():
            if chance.random() < likely and name not in flags:
                flags[name] = chance.choice(values)
    return flags


def words(flags):
    """Flags as words of the command line."""
    return [f"--{name}" if value is True else f"--{name}={value}" for name, value in flags.items()]
