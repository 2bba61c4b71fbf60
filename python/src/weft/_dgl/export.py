"""A module over DGL as a graph of ATen's operations. DGL's last release needs PyTorch 2.2, whose torch.export
knows no sizes that vary; there make_fx gives the same kind of graph."""

from __future__ import annotations

import os
import traceback
from typing import Any

import torch
from torch import Tensor, nn

_OWN = f"{os.sep}weft{os.sep}"
_CALLED = os.path.join(_OWN, "_trace", "called.py")  # which calls forward


def exported(called: Any, tensors_by_name: dict[str, Tensor]) -> tuple[Any, dict[Any, str]]:
    """The graph of ATen's operations, and what its inputs are: names of the state, or of what is given."""
    from torch._dynamo.source import ConstantSource
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    sizes = ShapeEnv(allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True)
    fake = FakeTensorMode(allow_non_fake_inputs=True, shape_env=sizes)
    state = {**dict(called.named_parameters()), **dict(called.named_buffers())}

    def faked(name: str, tensor: Tensor) -> Tensor:
        varies = called.specs[name].varies if name in tensors_by_name else None
        dims = [DimDynamic.DUCK if d == varies else DimDynamic.STATIC for d in range(tensor.dim())]
        context = StatelessSymbolicContext(dynamic_sizes=dims)
        return fake.from_tensor(tensor, source=ConstantSource(name), symbolic_context=context)

    def run(*tensors: Tensor) -> Any:
        values = dict(zip([*state, *tensors_by_name], tensors))
        own, tensors_of = ({name: values[name] for name in names} for names in (state, tensors_by_name))
        return torch.func.functional_call(called, own, (tensors_of,))

    inputs = [faked(name, t) for name, t in (*state.items(), *tensors_by_name.items())]
    with fake, _Lines(called):
        graph = make_fx(run, tracing_mode="real")(*inputs).graph
    return graph, dict(zip((n for n in graph.nodes if n.op == "placeholder"), [*state, *tensors_by_name]))


class _Lines(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
    """Notes at each operation the module and the lines of source that it comes from."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.paths: list[str] = []
        for path, part in module.named_modules():
            part.register_forward_pre_hook(lambda *_, path=path: self.paths.append(path))
            part.register_forward_hook(lambda *_: self.left())

    def left(self) -> None:
        self.paths.pop()

    def __enter__(self) -> Any:
        self.meta = torch.fx.traceback.preserve_node_meta()
        self.meta.__enter__()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        self.meta.__exit__(*error)

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        meta = torch.fx.traceback.current_meta
        path = self.paths[-1] if self.paths else ""
        meta["nn_module_stack"] = {path: (path, "")}
        frames = traceback.extract_stack()
        last = max((k for k, f in enumerate(frames) if f.filename.endswith(_CALLED)), default=-1)
        meta["stack_trace"] = "".join(
            traceback.format_list(f for f in frames[last + 1 :] if _OWN not in f.filename)
        )
        if (
            getattr(function, "__name__", "") == "dropout"
        ):  # one operation, which PyTorch would write as several
            x, p, on = (*args, *(kwargs or {}).values())[:3]
            return torch.native_dropout(x, p, True)[0] if on and p else x
        return function(*args, **(kwargs or {}))
