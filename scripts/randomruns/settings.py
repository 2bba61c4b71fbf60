"""Random flags of weft train."""

# Flags with values, and how likely a set has the flag.
COMMON = {
    "layers": (.5, [1, 2, 3]), "hidden": (.8, [4, 6, 8, 12, 24]), "dropout": (.5, [0, 0, .3]), "input-dropout": (.1, [.2]),
    "norm": (.4, ["none", "batch", "layer", "graph", "pair"]), "normalize-features": (.2, ["none", "row", "standard"]),
    "residual": (.15, [True]), "activation": (.2, ["none", "elu", "tanh", "gelu", "leaky-relu", "sigmoid"]),
    "blocks": (.15, ["residual"]), "jk": (.15, ["cat", "max"]), "direction": (.15, ["out", "both"]), "decoupled": (.12, [True]),
    "teleport": (.05, [.2]), "rounds": (.08, [1, 3]), "node-embedding": (.05, [4]), "aggregation-order": (.1, ["transform", "aggregate"]),
    "lr": (.5, [.003, .01, .05]), "weight-decay": (.2, [5e-4]), "drop-edge": (.1, [.3]), "label-input": (.08, [.4]),
    "optimizer": (.3, ["adam", "adamw", "sgd"]), "momentum": (.05, [.9]), "adam-beta2": (.05, [.9]),
    "schedule": (.15, ["cosine", "step", "plateau", "linear"]), "warmup": (.08, [2]), "loss": (.15, ["focal", "cross-entropy", "mae", "huber", "mse"]),
    "class-weights": (.1, ["balanced"]), "label-smoothing": (.08, [.1]), "calibrate": (.08, ["temperature", "isotonic"]),
    "clip": (.1, [.5]), "patience": (.2, [1, 3]), "eval-every": (.2, [1, 2, 3]), "select": (.3, ["metric", "loss"]),
    "metric": (.4, ["accuracy", "macro-f1", "micro-f1", "roc-auc", "average-precision", "rmse", "mae", "r2", "mrr", "hits@10", "precision@5",
                    "recall@fpr=0.2", "f1:c1"]),
    "seed": (.5, [1, 2, 3]), "split": (.2, [1, "random:50/30/20", "stratified:60/20/20", "per-class=5,5"]), "init-scheme": (.1, ["glorot", "torch"]),
    "threads": (.7, [1, 2]), "recompute": (.1, ["blocks", "none"]), "precision": (.2, ["bf16"]), "memory-limit": (.05, ["100MiB", "40KiB"]),
}
OF_MODELS = {
    "heads": (.6, [1, 2, 4]), "output-heads": (.3, [2]), "transform-dropout": (.2, [.2]), "attention-dropout": (.3, [.3]),
    "use-edge-features": (.3, [True]), "num-blocks": (.2, [2]), "bases": (.3, [2]), "aggregation": (.4, ["max", "sum", "mean"]),
    "alpha": (.3, [.3]), "theta": (.3, [1]), "shared-weights": (.3, ["false"]), "conv-weight-decay": (.2, [.01]),
}
MODELS = {
    "mlp": [], "gcn": [], "sage": ["aggregation"], "gat": ["heads", "output-heads", "transform-dropout", "attention-dropout", "use-edge-features"],
    "gatv2": ["heads", "output-heads", "transform-dropout", "attention-dropout", "use-edge-features"],
    "transformer": ["heads", "output-heads", "attention-dropout", "use-edge-features"], "gin": [], "gine": [], "pna": [],
    "rgcn": ["num-blocks", "bases"], "gcnii": ["alpha", "theta", "shared-weights", "conv-weight-decay"], "resgcn": [], "appnp": ["alpha"], "sgc": [],
}
OF_TASKS = {
    "vertex": {},
    "edge": {"decoder-layers": (.5, [1, 3]), "decoder-hidden": (.3, [5]), "out-features": (.3, [5]), "pass-messages": (.2, ["all", "earlier"])},
    "link": {"decoder": (.4, ["distmult", "dot"]), "out-features": (.3, [5]), "negatives": (.3, [2]), "eval-negatives": (.3, [5]),
             "link-split": (.3, ["70/15/15"])},
}
MESHES = ["", "", "", "graph=2", "graph=3", "tensor=2", "graph=2,tensor=2", "pipeline=2", "graph=2,pipeline=2", "tensor=2,pipeline=2"]
OF_AXES = {
    "graph": {"partition": (.3, ["metis", "random", "stream"]), "balance": (.2, ["edges", "train"]), "halo": (.3, ["rows", "cover", "auto"]),
              "keep-halo": (.15, [True]), "prefetch": (.1, [0, 2]), "wire": (.15, ["bf16", "int8"]), "wire-schedule": (.1, ["varco"])},
    "tensor": {"aggregation-chunks": (.3, [1, 2])},
    "pipeline": {"chunk-method": (.2, ["random", "merged"]), "history-period": (.2, [2]), "history-start": (.2, ["warm"]),
                 "chunk-order": (.3, ["fixed", "shuffle"]), "stale-gradients": (.2, ["keep", "drop"])},
}


def drawn(chance, task, folder):
    """The flags of a set, by name. Many sets have some that the model, the task or the mesh refuses."""
    flags = {"model": chance.choice(list(MODELS)), "epochs": chance.choice([2, 3, 5, 8])}
    tables = [COMMON, {name: OF_MODELS[name] for name in MODELS[flags["model"]]}, OF_TASKS[task]]
    if chance.random() < .1:
        tables.append(OF_MODELS)
    if mesh := chance.choice(MESHES):
        flags["parallel"] = mesh
        tables += [table for axis, table in OF_AXES.items() if axis in mesh]
        if "pipeline" in mesh:
            partitions = 2 if "graph" in mesh else 1
            flags["layers"], flags["chunks"] = chance.choice([2, 3, 4]), partitions * chance.choice([1, 1, 1, 2, 3])
    if "pipeline" not in mesh and chance.random() < .2:
        flags["partitions"] = chance.choice([3, 4])
        if chance.random() < .5:
            flags["offload"] = str(folder / "rest")
    for table in tables:
        for name, (likely, values) in table.items():
            if chance.random() < likely and name not in flags:
                flags[name] = chance.choice(values)
    return flags


def words(flags):
    """Flags as words of the command line."""
    return [f"--{name}" if value is True else f"--{name}={value}" for name, value in flags.items()]
