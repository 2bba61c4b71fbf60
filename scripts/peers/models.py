"""The models that are compared. Needs nothing beyond the standard library."""

from dataclasses import dataclass, replace

LAYERS = 3
LEARNING_RATE = 0.01


@dataclass(frozen=True)
class Model:
    """hidden is the width of the hidden layers, the total over heads. The last layer averages as many heads.
    peers are those that it is compared with. own says that it is a module of own.py. graphs are those that it
    is trained on, all if there are none. steps is the number of passes of a rollout, which rollout.py trains;
    0 is one of a model alone."""

    name: str
    hidden: int
    heads: int = 1
    batch_norm: bool = False
    peers: tuple[str, ...] = ("dgl", "pyg", "compile")
    own: bool = False
    layers: int = LAYERS
    graphs: tuple[str, ...] = ()
    steps: int = 0

    def weft_flags(self) -> list[str]:
        """The flags of the model that weft knows by name, which the name of a module of its layers ends
        with."""
        flags = [
            "--model",
            self.name.removeprefix("own-"),
            "--layers",
            str(LAYERS),
            "--hidden",
            str(self.hidden),
            "--dropout",
            "0",
        ]
        if self.heads > 1:
            flags += ["--heads", str(self.heads), "--output-heads", str(self.heads)]
        if self.batch_norm:
            flags += ["--norm", "batch"]
        return flags


MODELS = {
    model.name: model
    for model in (
        Model("sage", hidden=256, batch_norm=True),
        Model("gcn", hidden=256),
        Model("gat", hidden=4 * 32, heads=4),
    )
}
DENSE = ("uniform-15", "small-uniform")  # PyG's edges × columns do not fit elsewhere
MESHES = ("mesh", "small-mesh")
DEPTHS = (4, 8, 16)
OWN = {
    model.name: model
    for model in (
        *(
            replace(model, name=f"own-{name}", peers=("named",), own=True, graphs=DENSE)
            for name, model in MODELS.items()
        ),
        *(
            Model(name, hidden=128, peers=("pyg", "compile"), own=True, graphs=DENSE)
            for name in ("resgated", "edgeconv", "film", "gen")
        ),
        *(
            Model(
                f"mesh-{depth}",
                hidden=128,
                peers=("pyg", "compile"),
                own=True,
                layers=depth,
                graphs=(*MESHES, "mesh-large"),
            )
            for depth in DEPTHS
        ),
        Model("rollout-4", hidden=128, peers=("pyg", "compile"), own=True, layers=4, graphs=MESHES, steps=4),
    )
}
