"""The variables and files that never count in an output.

Ignored variables say where, as whom and how fast something runs. Ignored files come and go.

A project adds its own in its ``pyproject.toml``:

```toml
[tool.marin]
ignored-variables = ["LAB_*"]
ignored-names = ["*.bak"]
```
"""

from __future__ import annotations

import functools
import glob
import os
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase, translate

from msgspec import Struct

from marin.fingerprint.settings import settings_of

IGNORED_VARIABLES = tuple(
    """
    CI COLUMNS CONDA_* DISPLAY FORCE_COLOR GITHUB_* HOME HOSTNAME KUBERNETES_* LANG LC_* LD_LIBRARY_PATH LINES LOGNAME
    MARIN_* NO_COLOR OLDPWD PATH PWD PYTHON* RAY_* SHELL SHLVL SLURM_* SSH_* SYSTEMROOT TEMP TERM TMP TMPDIR TZ USER
    VIRTUAL_ENV XDG_*
    HF_DATASETS_CACHE HF_ENDPOINT HF_HOME HF_HUB_* HF_TOKEN TORCH_HOME TRANSFORMERS_CACHE TRANSFORMERS_OFFLINE
    TRACKIO_* WANDB_*
    AWS_* CLOUDSDK_* FSSPEC_* GCE_* GOOGLE_* SSL_CERT_* ALL_PROXY FTP_PROXY HTTPS_PROXY HTTP_PROXY NO_PROXY
    all_proxy ftp_proxy https_proxy http_proxy no_proxy
    CUDA_VISIBLE_DEVICES LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT MEGASCALE_* RANK TPU_* WORLD_SIZE
    *_NUM_THREADS TOKENIZERS_PARALLELISM TQDM_*
    LSB_* OMPI_* PBS_* PMI_* GROUP_RANK NCCL_* NODE_RANK NVIDIA_VISIBLE_DEVICES COMET_* LOGLEVEL MLFLOW_* NEPTUNE_*
    """.split()  # noqa: SIM905
)
"""Names of variables, as patterns. ``SLURM_ARRAY_TASK_ID`` counts: code that reads it builds one output per task."""

IGNORED_NAMES = (".*", "__pycache__", "*.pyc", "*.lock", "*.log", "*.swp", "*.tmp", "*~", "#*#", "Thumbs.db")
"""Names in a folder that is listed, as patterns. A pattern that asks for such files (``glob("*.log")``) finds them. A
file that is opened counts under any name."""

_COUNTED = frozenset({"SLURM_ARRAY_TASK_ID"})


class Ignored(Struct, frozen=True):
    """The patterns of ignored variables and names, see above."""

    variables: tuple[str, ...] = IGNORED_VARIABLES
    names: tuple[str, ...] = IGNORED_NAMES

    def has_variable(self, name: str) -> bool:
        return name not in _COUNTED and _any(self.variables).fullmatch(name) is not None

    def left(self, names: Iterable[str], pattern: str = "") -> list[str]:
        """Return the listed paths that count. pattern: the pattern that ``glob`` was asked for."""
        asked = [part for part in pattern.split(os.sep) if glob.has_magic(part) and part.strip("*")]
        ignored = _any(tuple(each for each in self.names if not any(fnmatchcase(part, each) for part in asked)))
        return [
            name for name in names if not any(ignored.fullmatch(part) for part in name.split(os.sep) if part != ".")
        ]


@functools.cache
def ignored_of(project: str) -> Ignored:
    """Return the patterns of a project. project: its folder. Raises ExperimentError for a wrong ``pyproject.toml``."""
    settings = settings_of(project)
    return Ignored((*IGNORED_VARIABLES, *settings.ignored_variables), (*IGNORED_NAMES, *settings.ignored_names))


@functools.cache
def _any(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)) or r"(?!)")
