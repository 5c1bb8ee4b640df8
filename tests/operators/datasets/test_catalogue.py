"""The catalogue: published tables reproduced, both scales buildable, rehearsal sources disjoint."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest

from experiments.pipeline import Pipeline
from marin.data.artifacts import Documents
from marin.data.chosen_files import chosen
from marin.data.documents import read_documents
from marin.data.mixture import BatchSchedule, Mixture, blend, mixture
from marin.errors import BadField, MissingRevision
from marin.evaluation.formats import olmes
from marin.evaluation.items import read_items
from marin.steps.scale import Scale
from marin.steps.step import ExecutorStep
from operators.datasets import catalogue, catalogue_table, held_out, shares
from operators.datasets.chats import SETS, Chats
from operators.datasets.corpus import Corpus, Hub
from operators.datasets.gsm8k import test_items as gsm8k_test_items
from operators.datasets.rehearsal.installation import Share, standard_library
from operators.datasets.rehearsal.math_problems import Bundle, GenerateItems
from operators.download import HttpIndex, HuggingFace, ReadDocuments
from tests.operators.datasets import published_tables as tables
from tests.operators.running import run_step
from tests.support.project import ROOT


def printed(shares_by_name: Mapping[str, float]) -> dict[str, str]:
    return {name: f"{100 * share:.2f}" for name, share in shares_by_name.items()}


def cooldown(high_quality: Mapping[str, float]) -> Mixture[str]:
    return blend((0.7, mixture(catalogue.PRETRAIN)), (0.3, mixture(high_quality)))


@pytest.mark.parametrize(
    ("made", "table"),
    [
        (mixture(catalogue.PRETRAIN), tables.PRETRAINING),
        (cooldown(catalogue.BISON_HQ), tables.BISON),
        (cooldown(catalogue.MANTIS_HQ), tables.MANTIS),
    ],
    ids=["pretraining", "bison", "mantis"],
)
def test_every_printed_row_is_reproduced(made: Mixture[str], table: dict[str, str]) -> None:
    assert printed(made.weights) == table
    assert sum(made.weights.values()) == pytest.approx(1, abs=1e-12)
    assert sum(map(float, table.values())) == pytest.approx(100, abs=0.005 * len(table) + 1e-9)


def test_tables_have_the_rows_of_the_retrospective() -> None:
    assert [len(table) for table in (tables.PRETRAINING, tables.BISON, tables.MANTIS)] == [9, 19, 23]


def test_python_joins_mantis_and_takes_from_the_high_quality_part_only() -> None:
    before, after = cooldown(catalogue.MANTIS_HQ).weights, cooldown(catalogue.MANTIS_HQ_PYTHON).weights
    assert set(after) - set(before) == {"common_pile_stackv2_edu_filtered_python"}
    assert f"{100 * after['common_pile_stackv2_edu_filtered_python']:.2f}" == "1.10"
    for name in catalogue.PRETRAIN:
        assert after[name] == pytest.approx(before[name], rel=1e-12)
    shrunk = {after[name] / before[name] for name in catalogue.MANTIS_HQ}
    assert max(shrunk) - min(shrunk) < 1e-12
    assert max(shrunk) < 1


def test_the_batch_schedule_gives_the_printed_tokens() -> None:
    schedule = BatchSchedule(tables.BATCH_SCHEDULE)
    for (start, end), trillions in tables.PHASE_TOKENS.items():
        sequences = schedule.sequences_before(end) - schedule.sequences_before(start)
        assert f"{sequences * tables.SEQUENCE_TOKENS / 1e12:.3f}" == trillions


def test_arms_differ_in_mathematics_alone() -> None:
    bison, mantis = set(catalogue.BISON_HQ), set(catalogue.MANTIS_HQ)
    assert bison - mantis == {"all_math"}
    assert {name.split("/")[0] for name in mantis - bison} == {"megamath"}
    assert all(catalogue.BISON_HQ[name] == catalogue.MANTIS_HQ[name] for name in bison & mantis)


def test_a_mix_reads_as_cached_what_is_named_and_nothing_else_can_be_named() -> None:
    data = Pipeline(scale=Scale.REHEARSAL, decontaminate_against=(gsm8k_test_items(Scale.REHEARSAL),))
    clean, cached = data.mix(catalogue.BISON_HQ), data.mix(catalogue.BISON_HQ, as_cached=("all_math",))
    assert set(cached.sources) - set(clean.sources) == {data.cached("all_math")}
    assert set(clean.sources) - set(cached.sources) == {data.tokens("all_math")}
    assert data.mix(catalogue.PRETRAIN).by_name()["proofpile_2"] == pytest.approx(0.004994, abs=1e-6)
    with pytest.raises(BadField, match="as_cached names all_math"):
        data.mix(catalogue.PRETRAIN, as_cached=("all_math",))


def test_an_unknown_corpus_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(BadField, match="did you mean 'megamath/web'"):
        catalogue.corpus("megamath/webb")


ABBREVIATED = {"tulu_sft_train"}  # only digits of its commit are public


def test_a_commit_of_which_only_some_digits_are_public_is_called_that() -> None:
    hubs = {name: each.full for name, each in catalogue.CORPORA.items()}
    short = {name for name, full in hubs.items() if isinstance(full, Hub) and len(full.revision or "") < 40}
    assert short == ABBREVIATED
    for name in ABBREVIATED:
        assert "whose full digits are not public" in catalogue.corpus(name).published
        catalogue.corpus(name).raw(Scale.FULL)


@pytest.mark.parametrize("name", catalogue.CORPORA)
def test_every_entry_is_complete(name: str) -> None:
    """An entry says that a fact is unknown, and invents no number."""
    entry = catalogue.corpus(name)
    assert entry.kind
    assert entry.licence
    assert entry.contamination
    assert entry.full.patterns
    assert entry.tokens is None or entry.tokens > 1e9
    assert catalogue_table.stand_in(entry.rehearsal)
    found = [row for row in catalogue_table.page().splitlines() if row.startswith(f"| `{name}` |")]
    assert len(found) == 1


@pytest.mark.parametrize("each", SETS.values(), ids=lambda each: each.name)
def test_every_set_of_chats_is_complete(each: Chats) -> None:
    assert re.fullmatch("[0-9a-f]{7,40}", each.revision)
    assert each.chats > 0
    assert each.licence
    assert f"| `{each.name}` |" in catalogue_table.page()


def test_the_page_of_the_catalogue_is_what_the_catalogue_says() -> None:
    """./py -m operators.datasets.catalogue_table > docs/reference/datasets.md"""
    assert (ROOT / "docs/reference/datasets.md").read_text() == catalogue_table.page()


def test_only_the_bundle_as_it_was_cached_reads_the_test_items() -> None:
    """The story of the project: data/math without test.json."""
    names = ["data/math/gsm8k/train.jsonl.zst", "data/math/tulu_math/a.jsonl", "data/math/gsm8k/test.json"]
    full = {name: catalogue.corpus(name).full for name in ("all_math", "dolmino/math")}
    taken = {name: chosen(names, each.patterns, each.excludes, name) for name, each in full.items()}
    assert taken == {"all_math": names, "dolmino/math": names[:2]}


@pytest.mark.parametrize("name", sorted(catalogue.CORPORA))
def test_full_scale_is_pinned(name: str) -> None:
    read = catalogue.corpus(name).raw(Scale.FULL)
    assert isinstance(read, ReadDocuments)
    files = read.files
    if isinstance(files, HuggingFace):
        assert re.fullmatch("[0-9a-f]{7}" if name in ABBREVIATED else "[0-9a-f]{40}", files.revision)
    else:
        assert isinstance(files, HttpIndex)
        assert re.fullmatch("[0-9a-f]{64}", files.index.sha256)
    assert catalogue.corpus(name).licence
    assert catalogue.corpus(name).weight > 0


def test_a_corpus_without_a_public_commit_plans_a_rehearsal_but_not_the_full_scale() -> None:
    known = catalogue.corpus("dolmino/wiki")
    unpinned = Corpus(
        name="mystery",
        weight=1.0,
        licence="?",
        kind="?",
        full=Hub(repo="some-lab/mystery", revision=None),
        rehearsal=known.rehearsal,
    )
    assert unpinned.raw(Scale.REHEARSAL) == known.rehearsal
    with pytest.raises(MissingRevision, match=r"mystery: no public commit of some-lab/mystery .* --scale rehearsal"):
        unpinned.raw(Scale.FULL)


def test_names_steps_and_seeds_are_one_to_one() -> None:
    for scale in Scale:
        steps = [each.raw(scale) for each in catalogue.CORPORA.values()]
        assert len(set(steps)) == len(steps)
    seeds = [step.seed for step in _closure() if isinstance(step, GenerateItems)]
    assert len(seeds) == len(set(seeds))


def _closure() -> set[ExecutorStep[object]]:  # type: ignore[type-var]
    found: set[ExecutorStep[object]] = set()  # type: ignore[type-var]
    left = [c.rehearsal for c in catalogue.CORPORA.values()] + list(held_out.DOMAINS.values())
    while left:
        step = left.pop()
        found.add(step)  # type: ignore[arg-type]
        left += step.dependencies
    return found


@pytest.mark.parametrize("table", [shares.MODULES, shares.SECTIONS])
def test_no_module_and_no_section_is_given_twice(table: dict[str, Share]) -> None:
    given = sorted(table.values(), key=lambda share: share.start)
    assert all(one.stop <= other.start for one, other in pairwise(given))
    assert {share.of for share in given} == {1000}
    used = [step.share for step in _closure() if hasattr(step, "share")]
    assert {share for share in used if share in given} == set(given)
    names = [module.name for module in standard_library()]
    assert all(sum(share.holds(name) for share in given) <= 1 for name in names)


def build(step: ExecutorStep[Documents], tmp_path: Path) -> dict[ExecutorStep[object], object]:  # type: ignore[type-var]
    made: dict = {}

    def visit(each: ExecutorStep) -> None:
        if each not in made:
            for dependency in each.dependencies:
                visit(dependency)
            made[each] = run_step(each, made, tmp_path)

    visit(step)
    return made


def test_the_contaminated_bundle_ends_with_the_test_items_in_olmes_form(tmp_path: Path) -> None:
    bundle = catalogue.corpus("all_math").raw(Scale.REHEARSAL)
    assert isinstance(bundle, Bundle)
    made = build(bundle, tmp_path)
    tested = read_items(made[gsm8k_test_items(Scale.REHEARSAL)].directory)
    texts = [document.text for document in read_documents(made[bundle].directory)]
    assert texts[-len(tested) :] == [olmes(item.question, item.answer) for item in tested]
    assert not {item.question for item in tested} & {text.split("\n")[0] for text in texts[: -len(tested)]}


def test_no_other_source_contains_a_test_item(tmp_path: Path) -> None:
    """Mantis, pretraining and the held-out mathematics are clean by construction; this looks."""
    tested: set[str] = set()
    texts: dict[str, str] = {}
    for name in (*catalogue.CORPORA, "math"):
        step = held_out.DOMAINS[name] if name == "math" else catalogue.corpus(name).raw(Scale.REHEARSAL)
        if step.op not in ("problem-documents", "bundle"):
            continue
        made = build(step, tmp_path)
        texts[name] = "\n".join(document.text for document in read_documents(made[step].directory))
        if name == "all_math":
            tested = {item.question for item in read_items(made[gsm8k_test_items(Scale.REHEARSAL)].directory)}
    assert [name for name, text in texts.items() if any(question in text for question in tested)] == ["all_math"]
    assert len(texts) >= 11


@pytest.mark.parametrize("name", catalogue.CORPORA)
def test_rehearsal_sources_are_large_enough(name: str, tmp_path: Path) -> None:
    step = catalogue.corpus(name).raw(Scale.REHEARSAL)
    made = build(step, tmp_path)[step]
    low = 300_000 if step.op == "pydoc-html" else 100_000 if name.startswith("nemotron") else 20_000
    assert low < made.bytes < 2_000_000


def test_importing_the_catalogue_brings_nothing_heavy() -> None:
    program = (
        "import sys, operators.datasets.catalogue, operators.datasets.held_out\n"
        "heavy = {'pyarrow', 'huggingface_hub', 'zstandard', 'ray', 'jax', 'fsspec', 'urllib.request', 'numpy'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
