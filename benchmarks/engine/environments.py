"""A tool's own Python environment, made on first use and kept in a cache folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.engine.tools import Tool


class NotInstalled(Exception):
    """The tool cannot be had here; the message says why."""


def default_cache() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "marin-benchmarks"


def environment(tool: Tool, cache: Path) -> Path:
    """The folder of the tool's programs and its ``python``. Raises NotInstalled."""
    if not tool.requires:
        return Path(sys.executable).parent
    key = hashlib.sha256("\n".join([sys.version, *tool.requires]).encode()).hexdigest()[:10]
    folder = cache / f"{tool.environment or tool.name}-{key}"
    stamp = folder / ".installed"
    if not stamp.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        base = getattr(sys, "_base_executable", sys.executable)
        _uv(tool, "venv", "-q", "-p", base, str(folder))
        _uv(tool, "pip", "install", "-q", "-p", str(folder / "bin" / "python"), *tool.requires)
        stamp.write_text("\n".join(tool.requires) + "\n")
    return folder / "bin"


def _uv(tool: Tool, *arguments: str) -> None:
    """uv by the package indexes that this machine is configured for."""
    command = [sys.executable, "-m", "uv", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise NotInstalled(f"{tool.name}: uv {arguments[0]} ended with {done.returncode}: {' '.join(lines)[:500]}")


def packages(bin_folder: Path) -> dict[str, str]:
    """Name and version of everything in an environment."""
    command = [sys.executable, "-m", "uv", "pip", "list", "-q", "--format", "freeze", "-p", str(bin_folder / "python")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    pairs = (line.split("==", 1) for line in done.stdout.splitlines() if "==" in line)
    return dict(pair for pair in pairs if len(pair) == 2)
