"""Paths of temporary folders in texts, which say what the folders hold instead."""

from __future__ import annotations

import re
import tempfile

PREFIX = "weft-"

# A folder of a Scratch, of any process.
_FOLDER = re.compile(
    rf"(?:{re.escape(tempfile.gettempdir())}|(?:/[^/\s<>\x22\x27=:;,]+)+)"
    rf"/{PREFIX}\d+-[a-z0-9_]{{8}}(?![a-z0-9_])"
)


def is_temporary(path: str) -> bool:
    """Whether a path is that of a folder of a Scratch or below it."""
    return _FOLDER.match(path) is not None


def graphs_named(text: str) -> str:
    """A text, perhaps a page, in which graphs that Python has written are called what they are."""

    def named(word: re.Match[str]) -> str:
        path = word[0].replace("<wbr>", "")  # which stands in names of a page where a line may break
        found = re.sub(_FOLDER.pattern + "/graph", "a graph in memory", path)
        return word[0] if found == path else found

    text = re.sub(r"(?:[^\s<>]|<wbr>)+", named, text)
    return text.replace(
        ' title="a graph in memory">graph<', ">a graph in memory<"
    )  # a page shows the name alone


def without_folders(text: str) -> str:
    """A line in which files of Scratches have the names of what was given, and their folders none."""
    text = _FOLDER.sub("\0", text)
    text = re.sub(r"(?<=[\w-]) \0(/\w+(\.\w+)?)?: ", ": ", text)  # behind the keyword
    text = re.sub(r"\0(/(graph|arrays|sweep\.yaml))?: ", "", text)
    text = re.sub(r"\0(/(graph|arrays))?(?![/\w])", "the graph", text)
    text = re.sub(
        r"\0/(?:(?:graph|arrays)/)?(\S*?)(\.npy|\.safetensors|\.txt|\.parquet|\.csv)?(?=[:;, ]|$)",
        r"\1",
        text,
    )
    return text.replace("\0/", "")
