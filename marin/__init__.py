"""marin: write an LLM experiment as one Python file and run it.

Experiments and operators import their names from here. Everything else is in submodules.
"""

from marin.cli.experiment_main import executor_main, say_errors_plainly
from marin.data.artifacts import (
    Checkpoint,
    Classifier,
    Documents,
    DocumentScores,
    HuggingFaceModel,
    Items,
    RawFiles,
    Report,
    Scores,
    Tokenizer,
    Tokens,
)
from marin.data.mixture import (
    BatchSchedule,
    ByTokens,
    Interpolation,
    Mix,
    Mixture,
    Shuffle,
    Stages,
    blend,
    mixture,
    nested,
)
from marin.fingerprint.observation.listening import install
from marin.steps.artifact import Artifact
from marin.steps.experiment import Experiment
from marin.steps.lifetime import FOREVER, Lifetime, after_use, unless_read
from marin.steps.our_packages import must_be_found
from marin.steps.pinned import Pinned
from marin.steps.reaches import reaches
from marin.steps.resources import CPU, Accelerator, Host, Resources, Size, Work
from marin.steps.scale import Scale
from marin.steps.step import Context, ExecutorStep
from marin.steps.value import execution, formerly, since, value
from marin.store.files.directory import Directory

install()  # first: modules of a project may read files while Python imports them
say_errors_plainly()
must_be_found()

__all__ = [
    "CPU",
    "FOREVER",
    "Accelerator",
    "Artifact",
    "BatchSchedule",
    "ByTokens",
    "Checkpoint",
    "Classifier",
    "Context",
    "Directory",
    "DocumentScores",
    "Documents",
    "ExecutorStep",
    "Experiment",
    "Host",
    "HuggingFaceModel",
    "Interpolation",
    "Items",
    "Lifetime",
    "Mix",
    "Mixture",
    "Pinned",
    "RawFiles",
    "Report",
    "Resources",
    "Scale",
    "Scores",
    "Shuffle",
    "Size",
    "Stages",
    "Tokenizer",
    "Tokens",
    "Work",
    "after_use",
    "blend",
    "execution",
    "executor_main",
    "formerly",
    "mixture",
    "nested",
    "reaches",
    "since",
    "unless_read",
    "value",
]
