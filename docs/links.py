"""Point links from pages to files outside the documentation at the repository, when the site is built."""

import re
from pathlib import Path

SHOWN = (".md", ".svg", ".png")
LINK = re.compile(r"(\]\()([^)#\s]+)")


def on_page_markdown(markdown, page, config, files):
    """Return the page with each link to another file of the repository made a link to its website; mkdocs calls this.

    Links to pages and pictures of the documentation stay, and so do links that lead nowhere: mkdocs reports those.
    """
    root, docs = Path(config.config_file_path).parent, Path(config.docs_dir)
    folder = Path(docs, page.file.src_uri).parent

    def rewritten(match: re.Match[str]) -> str:
        target = (folder / match[2]).resolve()
        on_site = target.is_relative_to(docs) and target.suffix in SHOWN
        if "://" in match[2] or not target.exists() or on_site:
            return match[0]
        return f"{match[1]}{config.repo_url}/blob/main/{target.relative_to(root)}"

    return LINK.sub(rewritten, markdown)
