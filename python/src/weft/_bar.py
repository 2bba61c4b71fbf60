"""The epochs of a training on a bar of tqdm."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from numbers import Integral
from pathlib import Path
from typing import Any

from . import _module, _program, _progress
from ._errors import reading

# The file of a run that says where it stands; it is there as soon as the run is.
STATE = "state.json"


class Bar:
    """The epochs on a bar of tqdm, if it is there and wanted. It is shown with the first epoch.

    Its length is the product of the number of epochs, that of seeds, and others; None: it is not known.
    """

    def __init__(self, wanted: bool, settings: Mapping[str, Any], resumed: Any = None, *others: Any):
        self.wanted = wanted
        self.bar: Any = None
        base = {name: _program.flags_of("train")[name]["default"] for name in ("model", "epochs")}
        state = Path(resumed or "") / STATE
        with reading(state):
            if resumed is not None and state.exists():
                base = json.loads(state.read_text(encoding="utf-8"))["settings"]
            named = (settings.get("model"), settings.get("config"), base["model"])
            self.name = _module.name_of(next(module for module in named if module is not None))
            epochs = settings.get("epochs")
            if epochs is None and settings.get("config") is None:
                epochs = int(base["epochs"])
        counts = (epochs, settings.get("seeds") or 1, *others)
        known = all(isinstance(count, Integral) for count in counts)
        self.total = math.prod(counts) if known else None

    def show(self, epoch: dict[str, Any]) -> None:
        if self.bar is None and self.wanted:
            self.begin(epoch["epoch"] - 1)
        if self.bar is None:
            return
        values = [
            f"{name} {epoch[name]:.4f}" for name in ("loss", "val", "test") if epoch.get(name) is not None
        ]
        self.bar.set_postfix_str("  ".join(values), refresh=False)
        self.bar.update(1)

    def begin(self, done: int) -> None:
        """Shows the bar of a run that continues after so many epochs, unless its text would go to a file."""
        if not _progress.is_watched():
            self.wanted = False
            return
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that a notebook without ipywidgets has a bar of text
                from tqdm.auto import tqdm
        except ImportError:
            self.wanted = False
            return
        self.bar = tqdm(total=self.total, initial=done, unit="epoch", desc=self.name)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self.bar is None:
            return
        if kind is None:
            self.bar.total = self.bar.n  # fewer epochs are no failure, which a notebook shows in red
        self.bar.close()
