"""For the site: links to files of the repository that are neither pages nor pictures lead to the repository."""

import re
from pathlib import Path

SHOWN = (".md", ".svg", ".png")
LINK = re.compile(r"(\]\()([^)#\s]+)")


def on_page_markdown(markdown, page, config, files):
    """Called by mkdocs for every page."""
    root = Path(config.config_file_path).parent
    folder = Path(config.docs_dir, page.file.src_uri).parent

    def rewritten(match: re.Match[str]) -> str:
        target = (folder / match[2]).resolve()
        if "://" in match[2] or not target.exists() or target.suffix in SHOWN:
            return match[0]
        return f"{match[1]}{config.repo_url}/blob/main/{target.relative_to(root)}"

    return LINK.sub(rewritten, markdown)
