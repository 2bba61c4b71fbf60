"""The errors of this package: what the program said, in Python's words."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path


class Refused(ValueError):
    """The request makes no sense: a setting, an array or a file is wrong, and nothing was done.

    The text is one line: the keyword or file, the reason, the way out.
    """


class Failed(RuntimeError):
    """The work itself failed, as where memory or the disk is full, or the loss is no number."""


class Interrupted(RuntimeError):
    """A signal from elsewhere ended the program before its end.

    A training that had a first epoch has results and a checkpoint, which the text names.
    """


def warn(text: str) -> None:
    """Warns at the line outside this package that has called it."""
    own, level, frame = str(Path(__file__).parent), 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(own):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)


def in_words_of_python(text: str) -> str:
    """The line that the program printed, with its flags named as keywords.

    A part of it that is a command to type (``weft train --resume RUN``) stays as it is.

    >>> in_words_of_python("--weight-decay -1: must be 0 or more")
    'weight_decay -1: must be 0 or more'
    """
    parts = re.split(r"(; |: |, )", text)
    return "".join(part if re.search(r"\bweft [a-z]+ ", part + " ") else _flags.sub(_keyword, part) for part in parts)


_flags = re.compile(r"(?<![\w-])--([a-z][a-z0-9]*(?:-[a-z0-9]+)*)")


def _keyword(flag: re.Match[str]) -> str:
    return flag[1].replace("-", "_")
