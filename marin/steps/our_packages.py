"""Check the packages that come with ``marin``: another package that Python finds first under their name hides them."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from marin.errors import ExperimentError

BESIDE = ("infra", "operators")
RENAMED = {"marin_datasets": "operators.datasets", "marin_infra": "infra", "marin_operators": "operators"}


def must_be_found() -> None:
    """Raise ExperimentError if ``import operators`` or ``import infra`` would import another package than marin's."""
    home = Path(__file__).parents[2]
    for name in BESIDE:
        ours = home / name / "__init__.py"
        spec = find_spec(name)
        found = spec.origin if spec is not None else None
        if found is None or os.path.realpath(found) == os.path.realpath(ours) or not ours.is_file():
            continue
        place = Path(found).parent if Path(found).name == "__init__.py" else Path(found)
        raise ExperimentError(
            f"{place} hides the package {name!r} that comes with marin ({ours.parent}): Python looks there first. "
            f"Rename it, say to my_{place.name}, also where it is imported"
        )
