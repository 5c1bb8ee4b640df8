"""``marin new model``: the lines that declare a published model in an experiment."""

from __future__ import annotations

import dataclasses
import re
import tempfile
from enum import Enum
from pathlib import Path

from marin.errors import BadField

HUB = re.compile(r"hf:([\w.-]+/[\w.-]+)@([0-9a-f]{40})")


def model_code(given: str) -> str:
    """Return Python that declares a model of the hub (``hf:OWNER/NAME@COMMIT``) or of a folder.

    Reads its config.json only. Raises BadField for another name, InputError for a model that marin does not read.
    """
    from marin.data.hub import fetch_model_file
    from marin.store.files.directory import Directory
    from marin.training.config_json import CONFIG, read_config

    hub, folder = HUB.fullmatch(given), Path(given).expanduser().absolute()
    if hub is not None:
        with tempfile.TemporaryDirectory() as state:
            text = fetch_model_file(hub[1], hub[2], CONFIG, Directory(state))
        fields = {"repo": hub[1], "revision": hub[2]}
    elif (folder / CONFIG).is_file():
        text, fields = (folder / CONFIG).read_bytes(), {"path": str(folder)}
    else:
        raise BadField(
            f"{given}: wanted hf:OWNER/NAME@ and a commit of 40 hex digits, which a model's page shows under Files → "
            f"History, or a folder with {CONFIG}"
        )
    config = read_config(text, given)
    step = "PretrainedModel" if hub is not None else "FolderModel"
    names = ["Architecture", *(["Llama3Rope"] if config.shape.rope else []), "ModelShape"]
    lines = [f'    {name}="{held}",' for name, held in fields.items()]
    return "\n".join(
        [
            f"from marin.training.model import {', '.join(names)}",
            f"from operators.pretrained_model import {step}",
            "",
            f"MODEL = {step}(",
            *lines,
            f"    shape={_written(config.shape, 4)},",
            f"    vocabulary={config.rows:_},",
            ")",
        ]
    )


def _written(held: object, indent: int) -> str:
    """A value as code, without the fields that have their defaults."""
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
