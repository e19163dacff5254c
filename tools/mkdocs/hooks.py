"""Hooks of MkDocs: what the documentation site needs beyond mkdocs.yml.

- README.md is the home page.
- A link that leaves docs/, to ../ARCHITECTURE.md for instance, leads to the file in the repository.
- An entry of the navigation that ends in /*.md stands for all pages of that folder.
- The search lists pages for users before pages about the inside of the project.
"""

import logging
import pathlib
import posixpath
import re

from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

log = logging.getLogger("mkdocs.hooks.repository")


def outside(target, page, root, repository):
    """Return the URL of a link that leaves docs/, or None for any other link.

    target is the link as the page has it, page the path of the page below docs/.
    """
    path, _, fragment = target.partition("#")
    if not path or ":" in path or path.startswith("/"):
        return None
    resolved = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), path))
    file = pathlib.Path(root, resolved)
    if resolved.startswith("docs/") and not file.is_dir():
        return None
    if not file.exists():
        log.warning("%s links to %s, which is not in the repository", page, target)
        return None
    view = "tree" if file.is_dir() else "blob"
    return f"{repository}/{view}/main/{resolved}" + (f"#{fragment}" if fragment else "")


class RepositoryLinks(Extension):
    """Rewrites the links that leave docs/, before MkDocs checks the others."""

    def __init__(self, root, repository):
        super().__init__()
        self.root, self.repository, self.page = root, repository, ""

    def extendMarkdown(self, md):
        links = self

        class Rewrite(Treeprocessor):
            def run(self, tree):
                for a in tree.iter("a"):
                    url = outside(a.get("href", ""), links.page, links.root, links.repository)
                    if url:
                        a.set("href", url)

        # After the inline patterns (20) have made the links, before MkDocs (0) resolves them.
        md.treeprocessors.register(Rewrite(md), "repository_links", 10)


_links = None
HOME = "index.md"


def on_files(files, config):
    """Add README.md as the home page, with its links as a page in docs/ has them."""
    text = pathlib.Path(_links.root, "README.md").read_text(encoding="utf-8")
    # A target stands in a link, or in a definition that links name.
    text = re.sub(r"(\]\(|^\[[^\]]+\]: )(?![a-z]+:|#)(docs/)?", lambda m: m[1] + ("" if m[2] else "../"), text, flags=re.M)
    files.append(File.generated(config, HOME, content=text))
    return files


def on_config(config):
    global _links
    root = pathlib.Path(config.config_file_path).parent
    for path in BOOSTS:
        if not pathlib.Path(config.docs_dir, path).exists():
            raise PluginError(f"the search has a factor for {path}, and there is no such page")
    _links = RepositoryLinks(root, config.repo_url.rstrip("/"))
    config.markdown_extensions.append(_links)
    config.nav = [expanded(entry, pathlib.Path(config.docs_dir)) for entry in config.nav]
    return config


def on_page_markdown(markdown, page, config, files):
    _links.page = page.file.src_uri
    page.meta.setdefault("search", {})["boost"] = boost(page.file.src_uri)
    return markdown


# Factors by which the search multiplies the score of a page, by folder or file below docs/.
ANSWERS = 3
INSIDE = 0.1
BOOSTS = {
    "faq.md": ANSWERS,
    "adr/": INSIDE,
    "design/": INSIDE,
    "measurements/": INSIDE,
    "peer-defects.md": INSIDE,
    "walkthrough.md": INSIDE,
}


def boost(path):
    """Return the factor of a page: 1 unless BOOSTS has it or its folder."""
    return BOOSTS.get(path, BOOSTS.get(posixpath.dirname(path) + "/", 1))


def expanded(entry, docs):
    """Return an entry of the navigation with the pages of folders in place of FOLDER/*.md."""
    if not isinstance(entry, dict):
        return entry
    return {title: below(value, docs) for title, value in entry.items()}


def below(value, docs):
    if not isinstance(value, list):
        return value
    pages = []
    for entry in value:
        if isinstance(entry, str) and entry.endswith("/*.md"):
            found = sorted(docs.glob(entry))
            if not found:
                raise PluginError(f"the navigation has {entry}, and there is no such page")
            listed = [e for e in value if isinstance(e, str)]
            pages += [{heading(f): str(f.relative_to(docs))} for f in found if str(f.relative_to(docs)) not in listed]
        else:
            pages.append(expanded(entry, docs))
    return pages


def heading(file):
    """Return the first heading of a page, without Markdown."""
    first = file.read_text(encoding="utf-8").split("\n", 1)[0]
    return re.sub(r"[`*]", "", first.removeprefix("# "))
