"""Render pydoc's HTML pages of standard-library modules, the same on every machine with that Python.

pydoc shows the values of module constants (such as the environment and the search path), file paths and memory
addresses; our pages keep only names and types.
"""

# pyright: basic
from __future__ import annotations

import importlib
import json
import os
import pydoc
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

from marin import reaches
from marin.errors import GarbledDocument
from marin.fingerprint.observation.listening import answering

# Importing these opens a browser, prints a poem, needs a display or another system, or starts a program.
UNSAFE = frozenset(("antigravity", "this", "__main__", "__hello__", "turtle", "sitecustomize", "usercustomize", "site"))
UNSAFE_PACKAGES = ("tkinter", "msilib", "curses", "dbm", "distutils", "lib2to3", "venv", "asyncio.windows", "test")
ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")
FILE_LINK = re.compile(r'<a href="file:[^"]*">[^<]*</a>')
IDENTITY = re.compile(r"\b0x[0-9a-f]{8,}\b")
SECONDS = 300


def is_safe(module: str) -> bool:
    """Return whether the module may be imported to document it."""
    return module not in UNSAFE and not module.endswith("__main__") and not module.startswith(UNSAFE_PACKAGES)


class ModulePage(pydoc.HTMLDoc):
    """pydoc's page without any value of this machine."""

    def docother(self, object, name=None, mod=None, *ignored) -> str:
        return f"<strong>{name}</strong>: {type(object).__name__}" if name else type(object).__name__


@reaches()  # modules of the standard library
def render_page(module: str) -> str | None:
    """Return the HTML page of one module, or None if it cannot be imported here (another operating system's)."""
    try:
        with warnings.catch_warnings(action="ignore"):
            loaded = importlib.import_module(module)
            page = ModulePage()
            html = page.page(pydoc.describe(loaded), page.document(loaded, module))
    except (ImportError, AttributeError, OSError):
        return None
    html = FILE_LINK.sub(module.replace(".", "/") + ".py", html)
    html = IDENTITY.sub("0x0", ADDRESS.sub("", html))
    for place in sorted({sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.expanduser("~")}, key=len, reverse=True):
        if len(place) > 1:
            html = html.replace(place, "")
    return html


@reaches(render_page)
def render_pages(modules: Sequence[str]) -> dict[str, str]:
    """Return module name → page, rendered in a fresh interpreter; leave out modules that are not importable here.

    The pages show no hash seed, and nothing that this process has imported or patched.
    Raises GarbledDocument with the last line of the interpreter's errors if the interpreter fails.
    """
    program = (
        "import json, os, sys\n"
        "os._Environ.__repr__ = lambda self: 'os.environ'\n"  # a default argument in some modules
        f"from {render_page.__module__} import {render_page.__name__}\n"
        "names, out = json.loads(sys.argv[1]), sys.argv[2]\n"
        f"pages = {{name: {render_page.__name__}(name) for name in names}}\n"
        "open(out, 'w', encoding='utf-8').write(json.dumps(pages))\n"
    )
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", ""),
        "PYTHONHASHSEED": "0",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "pages.json"
        command = [sys.executable, "-s", "-B", "-X", "utf8", "-c", program, json.dumps(list(modules)), str(out)]
        with answering():  # the program reads the standard library, which ``outside()`` covers by its version
            done = subprocess.run(
                command, env=environment, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, timeout=SECONDS
            )
        if done.returncode != 0:
            last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
            raise GarbledDocument(
                f"pydoc failed with exit status {done.returncode} on {len(modules)} modules: {last[0]}"
            )
        rendered = json.loads(out.read_text(encoding="utf-8"))
    return {name: page for name, page in sorted(rendered.items()) if page is not None}
