"""The table of functions that lower an operation of ATen, by its name. The files of `_aten` enter theirs by
`lowers`, and Lowering calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

LOWERED: dict[str, Callable[..., Any]] = {}


def lowers(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enters a function, which lowers ATen's operations of these names."""

    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        LOWERED.update(dict.fromkeys(names, function))
        return function

    return put


def named(words: str) -> dict[str, str]:
    """Words by their names: of name:word, and of a word alone, which is its own name."""
    pairs = (word.partition(":") for word in words.split())
    return {name: word or name for name, _, word in pairs}
