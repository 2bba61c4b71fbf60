"""The models that are compared. Needs nothing beyond the standard library."""

from dataclasses import dataclass, replace

LAYERS = 3
LEARNING_RATE = 0.01


@dataclass(frozen=True)
class Model:
    """hidden is the width of the hidden layers, the total over heads. The last layer averages as many heads. peers are those that it is
    compared with. own says that it is a module of own.py."""

    name: str
    hidden: int
    heads: int = 1
    batch_norm: bool = False
    peers: tuple[str, ...] = ("dgl", "pyg", "compile")
    own: bool = False

    def weft_flags(self) -> list[str]:
        """The flags of the model that weft knows by name, which the name of a module of its layers ends with."""
        flags = ["--model", self.name.removeprefix("own-"), "--layers", str(LAYERS), "--hidden", str(self.hidden), "--dropout", "0"]
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
OWN = {
    model.name: model
    for model in (
        *(replace(model, name=f"own-{name}", peers=("named",), own=True) for name, model in MODELS.items()),
        *(Model(name, hidden=128, peers=("pyg", "compile"), own=True) for name in ("resgated", "edgeconv", "film", "gen")),
    )
}
