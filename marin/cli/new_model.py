"""``marin new model``: print the lines that declare a published model in an experiment."""

from __future__ import annotations

import dataclasses
import importlib
import re
import tempfile
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from marin.errors import BadField

if TYPE_CHECKING:
    from marin.training.config_json import PublishedConfig

HUB = re.compile(r"hf:([\w.-]+/[\w.-]+)@([0-9a-f]{40})")
CONFIG = "config.json"
MODULE = "operators.pretrained_model"


def names_model(given: str) -> bool:
    """Return whether a word of a command line names a published model: ``hf:…``, or a folder with a config.json.

    A folder needs a slash (``./mine``), because a name without a slash names an output.
    """
    is_path = "/" in given and "://" not in given
    return given.startswith("hf:") or (is_path and (Path(given).expanduser() / CONFIG).is_file())


@dataclass(frozen=True)
class GivenModel:
    """A published model of the hub (``hf:OWNER/NAME@COMMIT``) or of a folder, by its name on a command line.

    Raises BadField for another name.
    """

    given: str

    def __post_init__(self) -> None:
        if self.is_of_hub or (self._folder / CONFIG).is_file():
            return
        raise BadField(
            f"{self.given}: wanted hf:OWNER/NAME@ and a commit of 40 hex digits, which a model's page shows under "
            f"Files → History, or a folder with {CONFIG}"
        )

    @property
    def is_of_hub(self) -> bool:
        return HUB.fullmatch(self.given) is not None

    @property
    def operator(self) -> str:
        return "PretrainedModel" if self.is_of_hub else "FolderModel"

    @property
    def fields(self) -> dict[str, str]:
        """Return the fields of the step that are part of its identity."""
        hub = HUB.fullmatch(self.given)
        return {"path": str(self._folder)} if hub is None else {"repo": hub[1], "revision": hub[2]}

    @property
    def name(self) -> str:
        """Return the name for a column or a label: the last part, without the commit."""
        hub = HUB.fullmatch(self.given)
        return hub[1].rpartition("/")[2] if hub else self._folder.name

    @property
    def canonical(self) -> str:
        """Return one name for all spellings of a folder."""
        return self.given if self.is_of_hub else str(self._folder)

    @property
    def _folder(self) -> Path:
        return Path(self.given).expanduser().absolute()

    @cached_property
    def config(self) -> PublishedConfig:
        """Read config.json, and nothing else. Raises InputError for a model that marin does not read."""
        from marin.data.hub import fetch_model_file
        from marin.store.files.directory import Directory
        from marin.training.config_json import read_config

        hub = HUB.fullmatch(self.given)
        if hub is None:
            return read_config((self._folder / CONFIG).read_bytes(), self.given)
        with tempfile.TemporaryDirectory() as state:
            return read_config(fetch_model_file(hub[1], hub[2], CONFIG, Directory(state)), self.given)

    def step(self, **more: Any) -> Any:
        """Return the step that reads the weights, labelled with the model's name. more: further fields."""
        return getattr(importlib.import_module(MODULE), self.operator)(**self.fields, label=self.name, **more)

    def declared(self) -> Any:
        """Return the step with the shape and vocabulary of config.json, so that a plan can show its size."""
        return self.step(shape=self.config.shape, vocabulary=self.config.rows)

    def imports(self) -> list[str]:
        """Return the import lines that ``code`` needs."""
        shapes = ["Architecture", *(["Llama3Rope"] if self.config.shape.rope else []), "ModelShape"]
        return [f"from marin.training.model import {', '.join(shapes)}", f"from {MODULE} import {self.operator}"]

    def code(self) -> str:
        """Return Python that declares the step as ``MODEL``."""
        return "\n".join(
            [
                f"MODEL = {self.operator}(",
                *(f'    {name}="{held}",' for name, held in self.fields.items()),
                f"    shape={_written(self.config.shape, 4)},",
                f"    vocabulary={self.config.rows:_},",
                ")",
            ]
        )


def model_code(given: str) -> str:
    """Return Python that declares a model of the hub (``hf:OWNER/NAME@COMMIT``) or of a folder.

    Reads its config.json only. Raises BadField for another name, InputError for a model that marin does not read.
    """
    model = GivenModel(given)
    return "\n".join([*model.imports(), "", model.code()])


def _written(held: object, indent: int) -> str:
    """Return a value as Python code, without fields that have their defaults."""
    if isinstance(held, Enum):
        return f"{type(held).__name__}.{held.name}"
    if not dataclasses.is_dataclass(held):
        return f"{held:_}" if isinstance(held, int) and not isinstance(held, bool) else repr(held)
    space = " " * indent
    shown = [
        f"{space}    {field.name}={_written(getattr(held, field.name), indent + 4)},"
        for field in dataclasses.fields(held)
        if getattr(held, field.name) != field.default
    ]
    return "\n".join([f"{type(held).__name__}(", *shown, f"{space})"])
