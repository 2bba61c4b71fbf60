"""The version of the wheel, which pyproject.toml takes from here."""

import os
import re

# What git describe says, without the v: a tag, perhaps of a version before it, the commits since, and changes
# that are not committed; or a commit.
_TAG = re.compile(r"(\d+\.\d+\.\d+)(?:-(a|alpha|b|beta|rc)\.?(\d+))?(?:-(\d+)-(g[0-9a-f]+))?(?:-(dirty))?")
_COMMIT = re.compile(r"([0-9a-f]{4,40})(?:-(dirty))?")


def version() -> str:
    """The version that the variable WEFT_VERSION has as git describes it, in the form of PEP 440; else 0.0.0.

    Raises:
        ValueError: it has no such form.
    """
    text = os.environ.get("WEFT_VERSION", "unknown")
    if text == "unknown":
        return "0.0.0"
    if match := _TAG.fullmatch(text):
        release, phase, number, *local = match.groups()
        public = release + (phase + number if phase else "")
    elif match := _COMMIT.fullmatch(text):
        public, local = "0.0.0", ["g" + match[1], match[2]]
    else:
        raise ValueError(f"WEFT_VERSION={text}: name the tag as vMAJOR.MINOR.PATCH, or with -rc.1 behind it")
    since = ".".join(part for part in local if part)
    return f"{public}+{since}" if since else public
