"""The models that are compared. Needs nothing beyond the standard library."""

from dataclasses import dataclass

LAYERS = 3
LEARNING_RATE = 0.01


@dataclass(frozen=True)
class Model:
    """hidden is the width of the hidden layers, the total over heads. The last layer averages as many heads."""

    name: str
    hidden: int
    heads: int = 1
    batch_norm: bool = False

    def weft_flags(self) -> list[str]:
        flags = ["--model", self.name, "--layers", str(LAYERS), "--hidden", str(self.hidden), "--lr", str(LEARNING_RATE), "--dropout", "0"]
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
