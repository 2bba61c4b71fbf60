"""What `make site` adds to MkDocs: the README as the first page, the pages' sources beside them for llms.txt,
and a check that no page loads anything from elsewhere."""

import re
import shutil
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(!?)\[([^\]]+)\]\((?!\w+:|#)([^)\s]+)\)")
LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc(?:set)?=\"?(?:https?:)?//"
    r"|<link\b(?=[^>]*\brel=\"?(?:stylesheet|preconnect|preload|icon))[^>]*\bhref=\"?(?:https?:)?//"
    r"|@import\s+(?:url\()?[\"']?(?:https?:)?//|url\([\"']?(?:https?:)?//",
    re.I,
)


def on_files(files, config):
    """The README is the first page."""
    files.append(File.generated(config, "index.md", content=of_site((ROOT / "README.md").read_text())))
    return files


def of_site(text):
    """The README with links to pages of docs/, without badges. Other files of the repository are names in the
    text."""

    def link(match):
        image, name, target = match.groups()
        if not (ROOT / target.partition("#")[0]).exists():
            raise PluginError(f"README.md links to {target}, which is not there")
        if target.startswith("docs/"):
            return f"{image}[{name}]({target.removeprefix('docs/')})"
        return name if name.startswith("`") else f"{name} (`{target}`)"

    return LINK.sub(link, re.sub(r"\[(!\[[^]]*\]\([^)]*\))\]\([^)]*\)\n", "", text))


def on_post_build(config):
    """Refuses pages and style sheets that load something from elsewhere, and copies the sources."""
    site, docs = Path(config.site_dir), Path(config.docs_dir)
    files = [*sorted(site.rglob("*.html")), *sorted(site.rglob("*.css"))]
    loads = [str(file.relative_to(site)) for file in files if LOADED.search(file.read_text())]
    if loads:
        raise PluginError("these load something from a network: " + ", ".join(loads))
    (site / "index.md").write_text(of_site((ROOT / "README.md").read_text()))
    for page in docs.rglob("*.md"):
        shutil.copy(page, site / page.relative_to(docs))
