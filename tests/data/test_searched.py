"""Searched: shares that are read from a report when a training runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from marin.data.mixture import Interpolation, Stages, blend, mixture
from marin.data.searched import MIXTURES, Searched, reader
from marin.errors import BadField
from marin.store.files.directory import Directory

OPTIMUM = Searched(("web", "code", "math"), "search", "optimum")


def written(where: Path, shares: dict[str, float]) -> Directory:
    made = Directory(str(where))
    made.write_text(MIXTURES, json.dumps({"optimum": shares, "natural": {"web": 1.0}}))
    return made


def test_shares_are_read_where_the_report_is_and_sources_of_none_are_left_out(tmp_path: Path) -> None:
    output = written(tmp_path, {"web": 0.75, "code": 0.25, "math": 0.0})
    stages = Stages({0: mixture({"math": 1}), 5: Interpolation(blend((0.2, mixture({"math": 1})), (0.8, OPTIMUM)), 3)})
    assert stages.reports == {"search"}
    assert stages.sources == ("math", "web", "code")
    found = stages.looked_up(reader({"search": output}.__getitem__))
    assert found.reports == frozenset()
    assert found.resolved({}).known()[5].by_name() == pytest.approx({"web": 0.6, "code": 0.2, "math": 0.2})
    assert found.interpolations == {5: 3}


def test_shares_that_nobody_looked_up_are_refused() -> None:
    with pytest.raises(BadField, match=r"the shares of web, code, math are in the output of search"):
        Stages({0: OPTIMUM}).resolved({})
    with pytest.raises(BadField, match="the shares from step 0 are not known"):
        Stages({0: OPTIMUM}).known()


def test_a_report_of_other_sources_is_refused(tmp_path: Path) -> None:
    output = written(tmp_path, {"web": 0.75, "wiki": 0.25})
    with pytest.raises(BadField, match="the report has a share of wiki; wanted web, code, math"):
        OPTIMUM.looked_up(reader(lambda _: output))
    with pytest.raises(BadField, match="several sources are called web"):
        Searched(("web", "web"), "search", "optimum")
