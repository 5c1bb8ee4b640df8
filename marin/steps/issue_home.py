"""Find the repository of an experiment's issue from the repository of its file, if the file does not say."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

MARIN = "https://github.com/marin-community/marin"
OURS = Path(__file__).parents[2] / "experiments"
# A name or a token before the host must not enter a link.
ORIGIN = re.compile(r"(?:(?:https?|ssh|git)://)?(?:[^@/\s]+@)?([\w.-]+\.\w+)(?::\d+)?[:/]([\w./~-]+?)(?:\.git)?/?")


def repository_of(source: Path) -> str:
    """Return marin's page for marin's experiments, else the page of the clone's origin; "" if it is not on the web."""
    if source.is_relative_to(OURS):
        return MARIN
    try:
        asked = ["git", "-C", str(source.parent), "config", "--get", "remote.origin.url"]
        origin = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=5).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = ORIGIN.fullmatch(origin)
    return f"https://{found[1]}/{found[2]}" if found else ""
