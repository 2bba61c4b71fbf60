"""A module's forward as a graph of ATen's operations, by torch.export, or by `_dgl` for a module over DGL.
`lower` goes through that graph."""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import traceback
import warnings
from collections.abc import Iterator
from typing import Any

import torch

from .._errors import Refused
from .._values import Unlowerable
from .._written import Written
from .called import Called
from .layers import as_traced, hooked, one_by_one
from .refusals import OF_DATA, said_of, why, without_features


def exported(called: Called) -> tuple[Any, dict[Any, Any]]:
    """The graph of ATen's operations, and what its inputs are: names of the state or of what is given, or a
    constant."""
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils._traceback import CapturedTraceback

    apply, summary = torch.autograd.Function.__dict__["apply"], CapturedTraceback.summary
    with quiet(), Written(called), one_by_one(), hooked(called), as_traced(), _no_grad_for_inference():
        try:
            torch.autograd.Function.apply = classmethod(_own_gradient)
            CapturedTraceback.summary = lambda stack: _from_forward(summary(stack))
            if called.dgl:
                from .. import _dgl

                return _dgl.exported(called, called.tensors)
            if not hasattr(torch.export.Dim, "AUTO"):
                raise Refused(
                    "model: by PyTorch 2.5 or earlier weft reads modules over DGL alone: call forward's "
                    "first parameter graph, or install PyTorch 2.6 to 2.15"
                )
            varies = {name: {spec.varies: torch.export.Dim.AUTO} for name, spec in called.specs.items()}
            # One dict as an argument: names of **keywords stand in dynamic_shapes otherwise from version to
            # version.
            shapes = (varies,) if varies else None
            exported = torch.export.export(called, (called.tensors,), dynamic_shapes=shapes, strict=False)
        except Exception as error:  # whatever the module raises
            raise without_features(error, called) or why(error, called.names) from None
        finally:
            torch.autograd.Function.apply = apply
            CapturedTraceback.summary = summary
    signature = exported.graph_signature
    kinds = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **dict(zip(signature.user_inputs, called.specs)),
    }
    lifted = {k: exported.constants[name] for k, name in signature.inputs_to_lifted_tensor_constants.items()}
    for node in exported.graph.nodes:
        if any(isinstance(lifted.get(node_input.name), FakeTensor) for node_input in node.all_input_nodes):
            raise Refused(f"model: {said_of(node)}{OF_DATA}")
    kinds |= {k: constant.clone() for k, constant in lifted.items()}
    return exported.graph, {
        n: kinds[n.name] for n in exported.graph.nodes if n.op == "placeholder" and n.name in kinds
    }


@contextlib.contextmanager
def _no_grad_for_inference() -> Iterator[None]:
    """torch.inference_mode becomes torch.no_grad, which torch.export writes down."""
    mode = torch.inference_mode
    kept = mode.__enter__, mode.__exit__

    def enter(self: Any) -> None:
        self.grad = torch.is_grad_enabled()
        torch.set_grad_enabled(not self.mode)

    def leave(self: Any, *_: Any) -> None:
        torch.set_grad_enabled(self.grad)

    mode.__enter__, mode.__exit__ = enter, leave
    try:
        yield
    finally:
        mode.__enter__, mode.__exit__ = kept


def _from_forward(frames: traceback.StackSummary) -> traceback.StackSummary:
    """Frames in which functions that forward calls have its name: torch.export notes the lines of forward
    alone."""
    first = next((k for k, frame in enumerate(frames) if frame.name == "forward"), len(frames))
    for frame in frames[first:]:
        frame.name = "forward"
    return frames


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """torch.export's own words go nowhere: what fails is told in one line."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stderr(io.StringIO()),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logging.disable(level)


# Modules whose functions of autograd call their first argument, and call it again in the backward pass. Their
# gradient is that of a plain call.
_AGAIN = ("torch.utils.checkpoint", "torch_geometric.nn.models.rev_gnn", "dgl.nn.pytorch.conv.grouprevres")


def _own_gradient(function: Any, *arguments: Any) -> Any:
    if function.__name__ == "_NoopSaveInputs":  # of checkpoint(use_reentrant=False), in PyTorch before 2.10
        return function.forward(*arguments)
    if function.__module__ in _AGAIN:
        named = list(inspect.signature(function.forward).parameters)[
            1:-1
        ]  # ctx comes before, and the inputs after
        inputs = arguments[len(named) :]
        return arguments[0](*inputs[: dict(zip(named, arguments)).get("num_inputs")])
    raise Unlowerable(
        f"{function.__name__} has a gradient of its own: write it by plain operations (checkpoint: "
        "use_reentrant=False)"
    )
