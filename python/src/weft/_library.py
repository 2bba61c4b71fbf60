"""What is a library's, and what is of the user's own: of files of Python, modules and objects."""

from __future__ import annotations

import functools
import os
import re
import sys
from importlib.util import find_spec
from typing import Any

# The packages that a call of a module goes through, or that a module holds objects of, beside the standard
# library.
_PACKAGES = (
    "dgl jinja2 numpy pyg_lib scipy sympy torch torch_cluster torch_geometric torch_scatter torch_sparse "
    "torch_spline_conv torchgen weft"
).split()

# The modules of the standard library whose objects hold what they are given as attributes.
_HOLDERS = ("argparse", "collections", "functools", "queue", "types")

# What is written while it runs: by PyTorch Geometric from templates, and by Python, PyTorch and SymPy.
_WRITTEN = re.compile(
    r"/torch_geometric\.nn\.|_(propagate|edge_updater)_\w+\.py$|^<(frozen|eval|lambdif|string)"
)


@functools.cache
def _directories() -> tuple[str, ...]:
    """The folders of the packages that are installed."""
    found = [spec for name in _PACKAGES if (spec := find_spec(name)) and spec.origin]
    return tuple(
        os.path.join(folder, "") for spec in found for folder in spec.submodule_search_locations or ()
    )


@functools.cache
def is_library_file(file: str) -> bool:
    """Whether a file of source is none of the user's own."""
    if _WRITTEN.search(file) or file.startswith(_directories()):
        return True
    standard = os.path.join(os.path.dirname(os.__file__), "")
    return file.startswith(standard) and not re.match("(site|dist)-packages/", file[len(standard) :])


def is_library(module: str) -> bool:
    """Whether a module of Python, by its name, is none of the user's own."""
    file = getattr(sys.modules.get(module), "__file__", None)
    if file:
        return is_library_file(file)
    name = module.partition(".")[0]
    return name in _PACKAGES or name in sys.stdlib_module_names


def is_plain(value: Any) -> bool:
    """Whether an object is what its attributes are: one of a class of the user's own, or one that holds what
    it is given."""
    kind = type(value).__module__
    return kind.partition(".")[0] in _HOLDERS or not is_library(kind)
