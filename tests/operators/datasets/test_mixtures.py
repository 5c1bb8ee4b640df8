"""Every mixture of both retrospectives, row by row as printed."""

from __future__ import annotations

from collections.abc import Mapping
from math import fsum

import pytest

from marin import Mixture
from operators.datasets import mixtures
from operators.datasets.catalogue import CORPORA
from operators.datasets.chats import SETS
from tests.operators.datasets import published_tables as tables


def printed(made: Mixture[str], digits: int) -> dict[str, str]:
    return {name: f"{100 * share:.{digits}f}" for name, share in made.weights.items()}


@pytest.mark.parametrize(
    ("made", "table", "digits"),
    [
        (mixtures.KESTREL, tables.KESTREL, 1),
        (mixtures.JELLYFISH, tables.JELLYFISH, 1),
        (mixtures.PHOENIX, tables.PHOENIX, 2),
        (mixtures.STARLING, {name: share for name, (share, _) in tables.STARLING.items()}, 1),
        (mixtures.PRETRAINING_32B, tables.PRETRAINING, 2),
        (mixtures.BISON, tables.BISON, 2),
        (mixtures.MANTIS, tables.MANTIS, 2),
    ],
    ids=["kestrel", "jellyfish", "phoenix", "starling", "32b", "bison", "mantis"],
)
def test_every_printed_row_is_reproduced(made: Mixture[str], table: Mapping[str, str], digits: int) -> None:
    assert printed(made, digits) == table


def test_starling_oversamples_as_its_table_says() -> None:
    assert {name: times for name, (_, times) in tables.STARLING.items() if times > 1} == mixtures.STARLING_TIMES


def test_phoenix_begins_with_a_bridge_of_both_mixtures() -> None:
    shares = dict(mixtures.PHOENIX_BRIDGE.weights)
    shares["nemotron_cc"] = fsum(shares.pop(name) for name in mixtures.NEMOTRON.sources)
    assert {name: f"{100 * share:.2f}" for name, share in shares.items()} == tables.PHOENIX_BRIDGE


def test_spoonbill_is_jellyfish_with_flan_and_tulu() -> None:
    """exp916: .97, .029 and .001; the retrospective says 1 % FLAN and .3 % Tulu."""
    shares = mixtures.SPOONBILL.weights
    assert (shares["dolmino/flan"], shares["tulu_sft_train"]) == (pytest.approx(0.029), pytest.approx(0.001))
    for name, share in mixtures.JELLYFISH.weights.items():
        assert shares[name] == pytest.approx(0.97 * share)


def test_mantis_with_python_has_the_shares_that_its_code_comes_to() -> None:
    made = printed(mixtures.MANTIS_PYTHON, 2)
    assert {name: made[name] for name in tables.MANTIS_PYTHON} == tables.MANTIS_PYTHON


def test_fine_tuning_goes_by_the_number_of_chats() -> None:
    assert sum(each.chats for each in SETS.values()) == tables.SFT_CHATS
    assert mixtures.SFT.weights["natural_reasoning"] == pytest.approx(1_145_824 / tables.SFT_CHATS)


def test_the_stages_of_both_runs_name_sources_of_the_catalogue() -> None:
    assert mixtures.MARIN_8B.starts == (0, 740_500, 820_000, 822_000, 1_320_000)
    assert mixtures.MARIN_8B.active(821_999) == mixtures.PHOENIX_BRIDGE
    assert set(mixtures.MARIN_8B.sources) | set(mixtures.MARIN_32B.sources) | set(mixtures.SPOONBILL.sources) <= set(
        CORPORA
    )


def test_phoenix_gone_over_to_evenly_is_one_stage_of_2000_steps() -> None:
    stages = mixtures.PHOENIX_EVENLY
    assert len(stages.at) == 2
    middle = stages.active(821_000).resolved({}).weights
    assert middle["dclm_baseline"] == pytest.approx(0.5 * mixtures.KESTREL.weights["dclm_baseline"], rel=0.01)
    assert stages.active(822_000) == mixtures.PHOENIX


def test_microannealing_is_70_15_15_and_its_control_all_pretraining() -> None:
    """Issue 784: a candidate beside FLAN; issue 820: 70/30 without it; FLAN alone."""
    wiki = Mixture({"dolma/wiki": 1.0})
    assert mixtures.microannealing(wiki).weights["dolma/wiki"] == pytest.approx(0.15)
    assert mixtures.microannealing(wiki, flan=0).weights["dolma/wiki"] == pytest.approx(0.3)
    alone = mixtures.microannealing(wiki, flan=0.3).weights
    assert (alone["dolma/flan"], "dolma/wiki" in alone) == (pytest.approx(0.3), False)
