"""Numbers that float32 does not hold as PyTorch's type does. Lowering asks of each node whether it makes
such."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .._values import Unlowerable
from .views import ALIASES, SAME, SHAPED

_ROUNDED = {torch.float16, torch.bfloat16}
_WRAPS = {torch.uint8, torch.int8, torch.int16}
_WRAPPING = set("add sub rsub mul multiply neg pow square abs div divide floor_divide addcmul".split())
_CASTS = set("to _to_copy type_as copy".split())
_BITS = {f"bitwise_{operation}" for operation in ("not", "and", "or", "xor")} | set(
    "__and__ __or__ __xor__ __lshift__ __rshift__".split()
)
_BITS |= {"lshift", "rshift", "bitwise_left_shift", "bitwise_right_shift"}


def _said(kind: torch.dtype) -> str:
    return str(kind).removeprefix("torch.")


def refuse_inexact(node: Any, name: str, precisions: set[torch.dtype]) -> None:
    """Refuses a node, of this name, whose numbers float32 does not hold: those that round, wrap, or are bits.

    precisions: the types of what forward is given.
    """
    made = node.meta["val"]
    made = made[0] if isinstance(made, (list, tuple)) else made
    kind = getattr(made, "dtype", torch.float32)
    if kind in _ROUNDED and kind not in precisions:
        raise Unlowerable(
            f"{name} gives {_said(kind)}, which rounds: leave it out, and give precision='bf16'"
        )
    if kind.is_floating_point or kind == torch.bool or name in SHAPED or name in ALIASES - SAME:
        return
    if name in _BITS:
        raise Unlowerable(
            f"{name.strip('_')} works on the bits of whole numbers: compare, and write logical_and, "
            "logical_or or logical_not"
        )
    dtypes = {n.meta["val"].dtype for n in node.all_input_nodes if isinstance(n.meta.get("val"), Tensor)}
    if kind in _WRAPS and (name in _WRAPPING or name in _CASTS and dtypes - {torch.bool, kind}):
        raise Unlowerable(f"{name.strip('_')} gives {_said(kind)}, whose numbers wrap: write .long()")
