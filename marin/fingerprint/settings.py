"""Read a project's settings in ``[tool.marin]`` of its ``pyproject.toml``."""

from __future__ import annotations

import functools
import os
import tomllib
from typing import Any, cast

from msgspec import Struct

from marin.errors import ExperimentError

_PATTERNS = ("ignored-variables", "ignored-names")
_ON_DRIFT = ("stop", "rebuild")


class Settings(Struct, frozen=True):
    """The settings of a project.

    ignored_variables, ignored_names: patterns, see marin.fingerprint.ignored. on_drift: "stop" or "rebuild".
    """

    file: str = ""
    ignored_variables: tuple[str, ...] = ()
    ignored_names: tuple[str, ...] = ()
    on_drift: str = "stop"


@functools.cache
def settings_of(project: str) -> Settings:
    """Return the settings of a project. project: its folder. Raises ExperimentError for a wrong or unknown one."""
    file = os.path.join(project, "pyproject.toml")
    try:
        with open(file, "rb") as stream:
            table: dict[str, Any] = tomllib.load(stream).get("tool", {}).get("marin", {})
    except FileNotFoundError:
        return Settings()
    except (OSError, ValueError) as error:
        raise ExperimentError(f"{file} cannot be read: {error}; it may hold the settings [tool.marin]") from error
    for key, value in table.items():
        if key == "on_drift":
            if value not in _ON_DRIFT:
                raise ExperimentError(f"{file}: [tool.marin] on_drift is {value!r}; wanted {' or '.join(_ON_DRIFT)}")
        elif key not in _PATTERNS:
            raise ExperimentError(f"{file}: [tool.marin] has {key!r}; known are {', '.join(_PATTERNS)} and on_drift")
        elif not isinstance(value, list) or not all(
            isinstance(each, str) and each for each in cast(list[object], value)
        ):
            raise ExperimentError(f'{file}: [tool.marin] {key} is {value!r}; wanted a list of patterns, e.g. ["LAB_*"]')
    variables, names = (tuple(table.get(key, ())) for key in _PATTERNS)
    return Settings(file, variables, names, table.get("on_drift", "stop"))
