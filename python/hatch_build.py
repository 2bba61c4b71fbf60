"""Puts the program into the wheel; scripts/wheel runs it."""

import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):
    """Adds the files below the folder WEFT_TREE, those of its package/ to the package and those of its share/
    to share/ of the environment, and tags the wheel with the platform WEFT_PLATFORM. Without WEFT_TREE the
    wheel has the Python alone, and a program is found as weft/_program.py says."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        tree = os.environ.get("WEFT_TREE")
        if tree:
            build_data["pure_python"] = False
            build_data["tag"] = "py3-none-" + os.environ["WEFT_PLATFORM"]
            build_data["force_include"][os.path.join(tree, "package")] = "weft"
            build_data["shared_data"][os.path.join(tree, "share")] = "share"
