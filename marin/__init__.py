"""marin: write an LLM experiment as one Python file and run it.

What an experiment or an operator needs is here; everything else is a submodule.
"""

from marin.data.artifacts import Checkpoint, Documents, Items, RawFiles, Report, Scores, Tokenizer, Tokens
from marin.fingerprint.observation.listening import install
from marin.steps.artifact import Artifact
from marin.steps.lifetime import Lifetime, after_use, unless_read
from marin.steps.pinned import Pinned
from marin.steps.resources import CPU, Accelerator, Resources
from marin.steps.step import Context, ExecutorStep
from marin.steps.value import execution, since, value
from marin.store.files.directory import Directory

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
