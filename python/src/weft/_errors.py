"""The errors of this package: what the program said, in Python's words."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator

from ._folders import without_folders


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


@contextlib.contextmanager
def reading(file: str | os.PathLike[str], way: str = "restore it, or train again") -> Iterator[None]:
    """Names the file of a run whose content is not what it should be, and the way out."""
    try:
        yield
    except OSError as error:
        raise Refused(f"{os.fspath(file)}: {error.strerror}; {way}") from None
    except _DAMAGE as error:
        why = f"lacks {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
        raise Refused(f"{os.fspath(file)}: damaged: {' '.join(why.split())}; {way}") from None


# What reading and using JSON, arrays and texts raises that are damaged.
_DAMAGE = (
    *(ValueError, EOFError, LookupError, TypeError, AttributeError),
    *(RecursionError, MemoryError, OverflowError),
)


def in_words_of_python(text: str) -> str:
    """The line that the program printed, with its flags named as keywords, and without temporary paths.

    A way out that Python has is Python's. Another command to type (``weft import npz FILE STORE``) stays as
    it is.

    >>> in_words_of_python("--weight-decay -1: must be 0 or more")
    'weight_decay -1: must be 0 or more'
    """
    text = without_folders(text)
    for pattern, words in _words:
        text = pattern.sub(words, text)
    text = _of_types.sub(_by_type, text)
    parts = re.split(r"(; |: |, )", text)
    return "".join(
        part
        if re.search(r"\bweft [a-z]+ ", part + " ")
        else _flags.sub(_keyword, _given.sub(_arguments, part))
        for part in parts
    )


_words = [
    (re.compile(pattern), words)
    for pattern, words in (
        (
            r"import it from a source that has labels, or .* lists them; or learn edges with --task link, .*",
            (
                "give y, or edge_y of edges, to weft.Graph, or labels to weft import; or learn edges with "
                'task="link"'
            ),
        ),
        (r"weft train(?: STORE)? --resume (.+?)(?=$|, or |;)", r'weft.train(data, resume="\1")'),
        (
            r"continue with the same command, --out (.+) and --resume auto",
            r'continue with the same call, out="\1" and resume="auto"',
        ),
        (r"the same command goes on", "the same call goes on"),
        (r"with --split (random:[0-9/]+)(, for a training or in an import)?", r'with split="\1"'),
        (r"leave empty lines out, and give ids", "give ids"),
        (r"--program program\.json", "the module"),
        (r"^--program(?=: )", "model"),
        (
            r"--quiet leaves out progress, and there is no more",
            "progress=False leaves out progress, and there is no more",
        ),
        (r"save (it|a mask) with (\.astype\()", r"give \1 as \2"),
        (
            r"validate: there is no such store; .*",
            "validate: the graph of the run was in memory; give it again",
        ),
        (
            r"class-weights: no such file or directory; .*",
            "class-weights: those of the run were in memory; give them again",
        ),
        (
            r"the graph of the run, the graph, is not there; restore it, or say where it is",
            "the graph of the run was in memory; give it",
        ),
        (r"is of another graph, the graph; give that", "is of another graph; give that"),
        (
            r"--init (?:'([^']+)'|(\S+)) begins a new run with its weights",
            r'init="\1\2" begins a new run with its weights',
        ),
        # Tables of Python have no other import.
        (r"; the import of this source is weft import edges (?:[^\s=]+=)?edges(?:/\S+)? .*$", ""),
    )
]
# Tables of several vertex types, which are to be given.
_of_types = re.compile(r"--[a-z-]+ [^\s=]+=TABLE(?: --[a-z-]+ [^\s=]+=TABLE)*")
# Several flags with their values, or one whose value is to be chosen.
_given = re.compile(r"--[a-z-]+ (?:[^\s,;-][^\s,;]*(?: --[a-z-]+ [^\s,;-][^\s,;]*)+|[A-Z]+(?=$|[\s,;]))")
_flags = re.compile(r"(?<![\w/-])--([a-z][a-z0-9]*(?:-[a-z0-9]+)*)")


def _keyword(flag: re.Match[str]) -> str:
    return flag[1].replace("-", "_")


def _by_type(flags: re.Match[str]) -> str:
    """Flags with a table of a vertex type each as one keyword with a dict."""
    words = flags[0].split()
    tables = ", ".join(f'"{word.removesuffix("=TABLE")}": …' for word in words[1::2])
    return f"{words[0][2:].replace('-', '_')}={{{tables}}}"


def _arguments(flags: re.Match[str]) -> str:
    """Flags with their values as arguments of a call. A value in capitals is to be chosen."""
    words = flags[0].split()
    return ", ".join(
        f"{flag[2:].replace('-', '_')}={value if value.isdecimal() or value.isupper() else repr(value)}"
        for flag, value in zip(words[::2], words[1::2])
    ).replace("'", '"')
