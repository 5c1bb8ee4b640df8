"""Every machine tests the packages of constraints.txt."""

from __future__ import annotations

import re
import tomllib
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.line_server import ROOT

LINE = re.compile(r"([a-z0-9-]+)==([^\s;]+)(?: ; .+)?")


def constraints() -> dict[str, str]:
    found = [LINE.fullmatch(line) for line in (ROOT / "constraints.txt").read_text().splitlines()]
    assert all(found), "a name and an exact version a line, and on which machines; no addresses"
    return {match[1]: match[2] for match in found if match}


def test_every_package_that_is_installed_is_of_that_version() -> None:
    """./py installs these versions; ./py --upgrade rewrites the file."""
    exact = constraints()
    held = {canonicalize_name(each.metadata["Name"]): each.version for each in metadata.distributions()}
    assert {name: held[name] for name in exact.keys() & held.keys()} == {
        name: exact[name] for name in exact.keys() & held
    }
    assert held.keys() - exact.keys() <= {"marin", "pip", "setuptools", "uv"}


def test_every_range_of_the_project_holds_its_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    listed = [project["project"]["dependencies"], *extras.values(), *project["dependency-groups"].values()]
    wanted = [Requirement(each) for group in listed for each in group]
    exact = constraints()
    for each in wanted:
        name = canonicalize_name(each.name)
        assert name == "marin" or each.specifier.contains(exact.get(name, "0"), prereleases=True), str(each)
