"""marin: write an LLM experiment as one Python file and run it.

What an experiment or an operator needs is here; everything else is a submodule.
"""

from marin.artifact import Artifact
from marin.context import Context
from marin.data.artifacts import Checkpoint, Documents, Items, RawFiles, Report, Scores, Tokenizer, Tokens
from marin.directory import Directory
from marin.lifetime import Lifetime, after_use, unless_read
from marin.listening import install
from marin.pin import Pinned
from marin.resources import CPU, Accelerator, Resources
from marin.step import ExecutorStep
from marin.value import execution, since, value

install()  # before the modules of a project are imported: they may read files while they are

__all__ = [
    "CPU",
    "Accelerator",
    "Artifact",
    "Checkpoint",
    "Context",
    "Directory",
    "Documents",
    "ExecutorStep",
    "Items",
    "Lifetime",
    "Pinned",
    "RawFiles",
    "Report",
    "Resources",
    "Scores",
    "Tokenizer",
    "Tokens",
    "after_use",
    "execution",
    "since",
    "unless_read",
    "value",
]
