"""Run every command of every page in order. A command that cannot run here states why, and which one runs instead."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from marin.cli.exits import Exit
from marin.data.documents import read_documents
from marin.store.files.directory import Directory
from tests.cli.test_new import mixed
from tests.docs.commands import PAGES, ROOT, Command, commands, program_and_rest
from tests.docs.lab import PACKAGES, Lab, edit, edit_library, make
from tests.support.clusters import RayCluster
from tests.support.forks import Ended, Forks
from tests.support.servers import StoreServer
from tests.support.topics import write_topics

REGISTRY = "asks a package index; tests/cli/test_wheel.py builds the wheel and tests/cli/test_extras.py installs light"
SERVER = "goes on until it is ended"
ACCOUNT = "asks for an account elsewhere"
CHECKS = "is all of these tests"
KEPT = "of a cluster that is kept; tests/cli/test_cluster_commands.py keeps one"
LOGS = "of a cluster that is kept; tests/cli/test_submit_command.py reads the logs of a job"
CONTAINER = "asks for a container, or a cluster of them; tests/infra/test_cluster_definitions.py reads the files"
CLUSTER = "of this whole machine; howto/ray.md runs on a cluster of the test's own"
COOLDOWN = "takes a checkpoint; tests/cli/test_microanneal_command.py trains one"
PROMPT = 'marin cat watched --prompt "the one and" --tokens 16'
PROMPTED = "takes a checkpoint; tests/cli/test_writing_on.py trains one"
ANNEAL = "marin microanneal --checkpoint run@16 --candidate ~/new_text"
TINY = "downloads a published model"
GPUS = "needs GPUs"
QWEN = "hf:Qwen/Qwen3-0.6B-Base@da87bfb608c14b7cf20ba1ce41287e8de496c0cd"
WORTH = (
    "marin microanneal --checkpoint hf:OWNER/NAME@COMMIT --candidate ~/new --control ~/web --questions "
    "~/questions.jsonl --peak-lr 1e-4"
)
TRAINS = "trains; howto/own-text.md runs it"


@dataclass(frozen=True, kw_only=True)
class Page:
    """The way to run a page's commands in a lab. fills: replacements in every command and its output.

    instead: for commands that do not run as they stand, the reason and the replacement, "" for none. codes: exit codes
    other than 0. before: changes to the lab before a command. prints: whether the page shows the true output.
    """

    fills: Mapping[str, str] = field(default_factory=dict[str, str])
    instead: Mapping[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    codes: Mapping[str, int] = field(default_factory=dict[str, int])
    before: Mapping[str, Callable[[Lab], object]] = field(default_factory=dict[str, Callable[[Lab], object]])
    prints: bool = False


MANTIS, SPLIT = "experiments/exp1529_mantis.py", "experiments/exp1_split.py"
TRUE = {f"{MANTIS} --scale full": f"{ROOT}/{MANTIS} --scale full"}  # not the lab's small experiment
WALK = "./py benchmarks/full_walk.py experiments/exp1529_mantis.py"
TPU = "marin run tpu_slices.py --scale full --dry-run"
CONTAINERS = (
    "docker build --build-arg EXTRA=tpu -f Containerfile -t IMAGE .",
    "kubectl apply -f cluster.yaml",
    "kubectl port-forward service/marin-head-svc 8265:8265",
    "kubectl get secret marin -o jsonpath='{.data.auth_token}' | base64 -d",
    "kubectl apply -f job.yaml",
)
TAB = f"COMP_WORDS='marin plan {SPLIT} fil' COMP_CWORD=3 _MARIN_COMPLETE=bash_complete marin | cut -d, -f2"
FORWARDED = f".venv/bin/marin submit {MANTIS} --scale full --prefix gs://BUCKET/marin --address http://127.0.0.1:8265"
AUDIT_SUITE = "marin audit contamination --against SUITE"
ACCEPT = f"marin accept {SPLIT} 'as prose' --because 'ten words more change nothing here'"


def no_store(lab: Lab) -> None:
    """Remove the store and all edits."""
    shutil.rmtree(lab.folder / "store", ignore_errors=True)
    unedit(lab)


def split_made(lab: Lab) -> None:
    no_store(lab)
    ended = lab.run(f"marin run {SPLIT} --backend inline")
    assert ended.code == 0, ended.said


def split_drifted(lab: Lab) -> None:
    split_made(lab)
    edit_library(lab)


def leave_project(lab: Lab) -> None:
    lab.folder = lab.folder.parent
    no_store(lab)


def unedit(lab: Lab) -> None:
    for package in PACKAGES:
        shutil.rmtree(lab.folder / package, ignore_errors=True)
    ended = lab.run("git checkout -q .")
    assert ended.code == 0, ended.said


def fewer_removed(lab: Lab) -> None:
    split_made(lab)
    edit(lab.folder / SPLIT, 'max_removed=1.0, label="as code"', 'max_removed=0.9, label="as code"')


def own_changed(lab: Lab) -> None:
    ended = lab.run("marin run experiments/exp2_own.py --backend inline")
    assert ended.code == 0, ended.said
    (lab.folder / "data/b.jsonl").write_text('{"text": "second"}\n')
    (lab.folder / "data/c.jsonl").write_text('{"text": "three"}\n')


def to_bucket(lab: Lab) -> None:
    ended = lab.run(f"marin mirror train/bison train/mantis --with-inputs --from store --to {lab.places['BUCKET']}")
    assert ended.code == 0, ended.said


def with_mixtures(lab: Lab) -> None:
    """The page reads three folders below /data."""
    for name in ("web", "code", "papers"):
        (lab.folder / "mixed" / name).mkdir(parents=True, exist_ok=True)
        (lab.folder / "mixed" / name / "a.txt").write_text(f"some text of {name}, and some more of it")
    for page in ("mixtures.py", "mixture_search.py"):
        source = (ROOT / "docs/howto" / page).read_text()
        (lab.folder / page).write_text(source.replace("/data/", f"{lab.folder}/mixed/"))


def with_new_text(lab: Lab) -> None:
    """The page reads two folders below /data."""
    for name in ("web", "new"):
        (lab.folder / "text" / name).mkdir(parents=True)
        (lab.folder / "text" / name / "a.txt").write_text(f"some text of {name}, and some more of it")
    source = (ROOT / "docs/howto/microanneal.py").read_text()
    (lab.folder / "microanneal.py").write_text(source.replace("/data/", f"{lab.folder}/text/"))


def with_ladder(lab: Lab) -> None:
    """The page reads two folders below /data."""
    for name in ("text", "held_out"):
        (lab.folder / "ladder" / name).mkdir(parents=True)
        (lab.folder / "ladder" / name / "a.txt").write_text(f"some text of {name}, and some more of it")
    source = (ROOT / "docs/howto/ladder.py").read_text()
    (lab.folder / "ladder.py").write_text(source.replace("/data/", f"{lab.folder}/ladder/"))


def with_suite(lab: Lab) -> None:
    """Make a suite. One of its items is a document that the lab's trainings read."""
    if not any(lab.folder.glob("store/train/*")):
        ended = lab.run(f"marin run {MANTIS} --backend inline")
        assert ended.code == 0, ended.said
    (text,) = (lab.folder / "store/filter").glob("all_math-*")
    words = next(read_documents(Directory(str(text)))).text.split()
    (lab.folder / "suite").mkdir()
    row = json.dumps({"id": "test-105", "question": " ".join(words[:40]), "answer": "18"})
    for name in ("gsm8k.jsonl", "suite/mmlu.jsonl"):
        (lab.folder / name).write_text(f"{row}\n")
    source = (ROOT / "docs/howto/contamination.py").read_text()
    source = source.replace("/data/suite", f"{lab.folder}/suite").replace("/data/text", f"{lab.folder}/data")
    (lab.folder / "contamination.py").write_text(source)
    ended = lab.run("marin run contamination.py --backend inline")
    assert ended.code == 0, ended.said


def with_topics(lab: Lab) -> None:
    """The page reads /data/text. Here it holds Python's reference, one file for each page."""
    write_topics(lab.folder / "topics")
    source = (ROOT / "docs/howto/inspect_batches.py").read_text()
    (lab.folder / "inspect_batches.py").write_text(source.replace("/data/text", str(lab.folder / "topics")))


def with_text(lab: Lab) -> None:
    """The page reads /data/text."""
    source = (ROOT / "docs/howto/tpu_slices.py").read_text()
    (lab.folder / "tpu_slices.py").write_text(source.replace("/data/text", str(lab.folder / "data")))


def quicker(lab: Lab) -> None:
    """Train for twenty steps only, on text in files of every kind that the page names."""
    edit(lab.folder / "my_project/own_text.py", "REHEARSAL: 100", "REHEARSAL: 20")
    mixed(lab.folder / "text")


def fewer_arms(lab: Lab) -> None:
    edit(lab.folder / "exp2_sweep.py", "(2e-3, 5e-3, 1e-2)", "(2e-3, 5e-3)")


def with_tokenizer(lab: Lab) -> None:
    """Offer the tokenizer that the first experiment trained as a folder from elsewhere."""
    (trained,) = (lab.folder / "store/train-tokenizer").iterdir()
    shutil.copytree(trained, lab.folder / "mine", ignore=shutil.ignore_patterns(".marin"))
    step = f"FolderTokenizer(path={str(lab.folder / 'mine')!r}, label='mine')"
    (lab.folder / "exp8_tokenizer.py").write_text(
        "from marin import Experiment\nfrom operators.pretrained_tokenizer import FolderTokenizer\n\n\n"
        f"def build(scale):\n    return Experiment(issue=8, question='?', results={{'tokenizer': {step}}})\n"
    )
    ended = lab.run("marin run exp8_tokenizer.py --backend inline")
    assert ended.code == 0, ended.said


def checks(*arguments: str) -> dict[str, tuple[str, str]]:
    return {f"./check {each}".rstrip(): (CHECKS, f"bash -n {ROOT}/check") for each in arguments}


TABLE: dict[str, Page] = {
    "README.md": Page(
        fills={**TRUE, "./py -m marin new ../": "marin new ../"},
        instead={
            **checks(""),
            f"uv run {MANTIS}": (REGISTRY, ""),
            ".venv/bin/marin plan|run|status|audit …": ("four in one", f"marin plan {MANTIS}"),
        },
    ),
    "CONTRIBUTING.md": Page(
        instead={
            **checks("--fast", "--slow", "--stress", "--stress --minutes 60", "--order 7", "tests/store -k claim"),
            "./py --upgrade": (REGISTRY, ""),
            "./py -m experiments.table > experiments/README.md": (
                "tests/experiments/test_every_experiment.py says whether the table is today's",
                "",
            ),
            "./py -m experiments.rehearse FOLDER --alone exp1529_mantis": (
                "takes minutes; tests/experiments/test_rehearsed.py says what of it is kept",
                "",
            ),
            ".venv/bin/mkdocs serve": (f"{SERVER}; tests/cli/test_site.py builds the site", "mkdocs --version"),
        },
    ),
    "architecture.md": Page(),
    "commands.md": Page(
        fills={
            "model FOLDER": f"model {ROOT}/tests/training/published/qwen3",
            **TRUE,
            "/mnt/backup/store": "../backup",
            "python EXPERIMENT": f"python {SPLIT}",
        },
        instead={
            "marin new experiment NAME": ("in the folder of a project, which comes later", "marin new --help"),
            "marin run exp1_filter.py": (TRAINS, "marin run exp1_filter.py --dry-run"),
            "marin inspect inspect_batches.py": (
                "of a training: howto/inspect-batches.md runs it",
                "marin inspect --help",
            ),
            f"{ANNEAL} --dry-run": (COOLDOWN, "marin microanneal --help"),
            "marin compare hf:OWNER/NAME@COMMIT ./my_model mine": (TINY, "marin compare --help"),
            "marin logs STEP": ("of any step", "marin logs 'filter/as prose'"),
            "marin status bison --health": ("of a training: howto/run-health.md runs it", "marin status --help"),
            f"marin submit {MANTIS} --prefix gs://bucket/marin --address 10.0.0.2:6379": (CLUSTER, ""),
            **{f"marin cluster {one}": (KEPT, "") for one in ("up", "down", "status", "jobs", "dashboard")},
            "marin cluster logs -f exp1529_mantis": (LOGS, ""),
            "ray list tasks": (CLUSTER, ""),
            "RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=/tmp/marin-ray-x1k2/token ray list tasks --address "
            "http://127.0.0.1:8265": (CLUSTER, ""),
            f"marin plan {SPLIT} fil<Tab>": ("what a shell runs for a Tab", TAB),
        },
        codes={"python -m marin": Exit.USAGE, "marin audit contamination --against gsm8k.jsonl": Exit.DRIFT},
        before={
            "marin audit contamination --against gsm8k.jsonl": with_suite,
            f"marin plan {SPLIT}": leave_project,
            f"marin plan {SPLIT} 'as prose'": split_drifted,
            f"marin plan {MANTIS} --scale full --phases": unedit,
            "marin lineage docstrings --down": unedit,
            f"marin diff {SPLIT} --from HEAD --scale rehearsal --prefix store": fewer_removed,
            f"marin run {SPLIT} --backend inline": no_store,
            ACCEPT: split_drifted,
            "marin adopt README.md --kind raw_files --label readme --because 'for the tutorial'": split_made,
            "marin ls": split_made,
        },
        prints=True,
    ),
    "drift.md": Page(
        fills={"EXPERIMENT STEP": f"{SPLIT} 'as prose'"},
        codes={
            f"marin run {SPLIT} --backend inline": Exit.DRIFT,
            "marin run experiments/exp2_own.py": Exit.DRIFT,
            "marin plan experiments/exp3_score.py": Exit.EXPERIMENT,
        },
        before={
            f"marin run {SPLIT} --backend inline": split_drifted,
            ACCEPT: split_drifted,
            "marin run experiments/exp2_own.py": lambda lab: (no_store(lab), own_changed(lab)),
        },
        prints=True,
    ),
    "exit-codes.md": Page(fills={"exp….py": "exp1_split.py"}, instead={"pip install 'marin[data]'": (REGISTRY, "")}),
    "full-scale.md": Page(
        fills=TRUE,
        instead={
            "gcloud compute tpus tpu-vm delete": (ACCOUNT, ""),
            **dict.fromkeys(("kubectl delete pod", "kubectl drain"), (CONTAINER, "")),
            WALK: ("takes minutes; tests/experiments/test_shrunk.py plans what it runs", ""),
            **{f"marin cluster {one}": (KEPT, "") for one in ("status", "jobs --stop")},
            "marin cluster logs -f JOB": (LOGS, ""),
            "python -m infra kuberay": (
                "named in a sentence; tests/infra/test_cluster_definitions.py reads what it prints",
                "",
            ),
        },
    ),
    "howto/browse.md": Page(
        fills={"FILE STEP": f"{MANTIS} train/mantis"},
        instead={"ssh -L 8642:127.0.0.1:8642 HOST": ("no other machine", "")},
    ),
    "howto/change-a-run.md": Page(fills={**TRUE, f"{MANTIS} --set": f"{ROOT}/{MANTIS} --set"}),
    "howto/clusters.md": Page(
        instead={
            **dict.fromkeys(CONTAINERS, (CONTAINER, "")),
            ".venv/bin/marin cluster up tpus.yaml": (
                ACCOUNT,
                "python -c 'import yaml; yaml.safe_load(open(\"tpus.yaml\"))'",
            ),
            ".venv/bin/marin cluster dashboard tpus.yaml": (ACCOUNT, ""),
            ".venv/bin/marin cluster down tpus.yaml": (ACCOUNT, ""),
            FORWARDED: (ACCOUNT, f"marin submit {MANTIS} --dry-run"),
        },
    ),
    "howto/contamination.md": Page(
        fills={
            "/data/suite": "suite",
            "--against SUITE": "--against suite/mmlu.jsonl",
            "exp1529_mantis.py": MANTIS,
            "--because 'holds test items'": "--because 'holds test items' --dry-run",
            "revoke STEP": "revoke tokenize/dolmino",
        },
        codes={
            AUDIT_SUITE: Exit.DRIFT,
            **{
                f".venv/bin/marin audit contamination {rest}": Exit.DRIFT
                for rest in (
                    "--against /data/suite/mmlu.jsonl",
                    "tokenize/all_math --against read-suite/mmlu",
                    "--experiment exp1529_mantis.py --against /data/suite/mmlu.jsonl",
                )
            },
        },
        before={AUDIT_SUITE: with_suite},
    ),
    "howto/compare-published.md": Page(instead={f"marin compare {QWEN} ./my_model mine": (TINY, "")}),
    "howto/free-space.md": Page(fills={"filter/web": "train/mantis", "STEP": "train/mantis"}),
    "howto/huggingface-dataset.md": Page(instead={"hf auth login": (ACCOUNT, "")}),
    "howto/install.md": Page(
        instead={
            ".venv/bin/python -m pip wheel --no-deps --wheel-dir dist .": (REGISTRY, ""),
            "pip install 'marin[run] @ file:///home/ada/marin/dist/marin-0.1.0-py3-none-any.whl'": (REGISTRY, ""),
            "uv tool install --python 3.12 'marin[run] @ file:///home/ada/marin/dist/marin-0.1.0-py3-none-any.whl'": (
                REGISTRY,
                "",
            ),
            "pip install 'marin[run]'": (REGISTRY, ""),
            "uv tool install 'marin[run]'": (REGISTRY, ""),
            "pip install 'marin[data]'": (REGISTRY, ""),
        },
    ),
    "howto/inspect-batches.md": Page(
        fills={"EXPERIMENT [TRAINING]": "inspect_batches.py small"},
        before={"marin run inspect_batches.py --only batches": with_topics},
    ),
    "howto/ladder.md": Page(before={"marin run ladder.py --dry-run": with_ladder}),
    "howto/microanneal.md": Page(
        instead={ANNEAL: (COOLDOWN, "")}, before={"marin run microanneal.py --dry-run": with_new_text}
    ),
    "howto/mixture-search.md": Page(before={"marin run mixture_search.py --dry-run": with_mixtures}),
    "howto/mixtures.md": Page(before={"marin plan mixtures.py --data": with_mixtures}),
    "howto/published-model.md": Page(
        fills={"FOLDER": f"{ROOT}/tests/training/published/qwen3"},
        instead={"hf auth login": (ACCOUNT, ""), f'marin cat {QWEN} --prompt "The lighthouse keeper"': (TINY, "")},
    ),
    "howto/review.md": Page(fills={"EXPERIMENT --scale full": MANTIS, "STORE": "store"}),
    "howto/run-health.md": Page(
        instead={PROMPT: (PROMPTED, ""), f"{PROMPT} --temperature 0.8 --seed 1": (PROMPTED, "")},
    ),
    "howto/shared-store.md": Page(
        fills={"/shared/marin": "../shared", "lab ": f"{os.getgid()} ", "EXPERIMENT": MANTIS},
    ),
    "howto/tpu-slices.md": Page(
        instead={
            "pip install 'marin[gpu]'": (REGISTRY, ""),
            "marin run own_text.py --resources gpu": (GPUS, ""),
            "CUDA_VISIBLE_DEVICES=0,1 marin run own_text.py --resources gpu": (GPUS, ""),
        },
        before={TPU: with_text},
    ),
    "howto/track.md": Page(
        instead={"pip install 'marin[track]'": (REGISTRY, ""), "uv sync": (REGISTRY, "")},
    ),
    "howto/worth-adding.md": Page(instead={WORTH: (TINY, "")}),
    "reference/environment.md": Page(
        fills={"STEP": "train/mantis", "gs://bucket/marin": "BUCKET"},
        instead={"hf auth login": (ACCOUNT, ""), "marin cluster up": (KEPT, "")},
        before={"MARIN_LOG=debug .venv/bin/marin ls --prefix gs://bucket/marin": to_bucket},
    ),
    "regions.md": Page(
        fills={
            "exp.py --prefix gs://lab-us-central2/store": f"{SPLIT} --prefix BUCKET --store-region gcp/us-central2",
            "gs://lab-us/store": "BUCKET",
            "gs://lab-eu/store": "BUCKET-eu",
            "/data/store": "../other",
        },
        codes={"marin plan exp.py --prefix gs://lab-us-central2/store --region gcp/us-east5": Exit.EGRESS},
        before={"marin mirror tokenize/dolmino --from gs://lab-us/store --to gs://lab-eu/store": to_bucket},
    ),
    "troubleshooting.md": Page(
        fills={
            "MARIN_PYTHON=/path/to/python3.12 ./py …": f"./py {MANTIS}",
            "OTHER": SPLIT,
            "FILE STEP": f"{MANTIS} train/mantis",
            "FILE": MANTIS,
            "STEP": "train/mantis",
        },
        instead={"marin cluster up": (KEPT, "")},
    ),
    "trust.md": Page(
        fills={
            "lineage STEP --down": "lineage filter/all_math --down",
            "lineage STEP": "lineage train/mantis",
            "revoke STEP --because REASON [--replace-with STEP]": "revoke bundle/dolmino --because 'holds test items'",
            "PATH_OR_URL --kind KIND --label LABEL --because REASON": "lib --kind raw_files --label lib --because code",
            "audit EXPERIMENT…": f"audit {MANTIS}",
            "exp1_toy.py exp2_innocent.py": f"{MANTIS} {SPLIT}",
            "--against SUITE": "--against suite/mmlu.jsonl",
        },
        codes={
            **dict.fromkeys(("marin audit EXPERIMENT…", "marin audit --bytes"), Exit.DRIFT),
            "marin audit exp1_toy.py exp2_innocent.py": Exit.DRIFT,
            AUDIT_SUITE: Exit.DRIFT,
        },
        before={
            AUDIT_SUITE: with_suite,
        },
    ),
    "tutorial.md": Page(),
}


def name(page: Path) -> str:
    return str(page.relative_to(ROOT)).removeprefix("docs/")


# Pages about a user's own project, in which trainings run. The pages run one after the other in one folder.
OF_A_PROJECT: dict[str, Page] = {
    "howto/own-text.md": Page(
        fills={
            "/home/ada/marin/.venv/bin/marin": "marin",
            "./py -m marin new ../": "marin new ../",
            "experiment NAME": "experiment mine --issue 1",
        },
        before={
            "/home/ada/marin/.venv/bin/marin run exp1_filter.py": quicker,
            "marin new my_project": lambda lab: setattr(lab, "folder", lab.home),
            "marin cat filter/filtered": lambda lab: setattr(lab, "folder", lab.home.parent / "my_project"),
        },
    ),
    "howto/sweep-and-seeds.md": Page(before={"marin run exp2_sweep.py": fewer_arms}),
    "howto/read-outputs.md": Page(),
    "howto/own-tokenizer.md": Page(
        instead={"hf auth login": (ACCOUNT, "")},
        before={"marin cat folder-tokenizer/mine": with_tokenizer},
    ),
    "howto/new-operator.md": Page(fills={"EXPERIMENT STEP": "exp1_filter.py filter/filtered"}),
}
OF_A_CLUSTER: dict[str, Page] = {
    "howto/ray.md": Page(
        instead={
            ".venv/bin/marin cluster up": (KEPT, ""),
            f".venv/bin/marin submit {MANTIS}": (
                "another address, and a Python that is not the cluster's first",
                f"marin submit {MANTIS} --address DASHBOARD --python PYTHON --prefix LAB/store",
            ),
            ".venv/bin/marin cluster status": ("another address", "marin cluster status --address DASHBOARD"),
            "marin cluster status": ("another address", "marin cluster status --json --address DASHBOARD"),
            ".venv/bin/marin cluster jobs": ("another address", "marin cluster jobs --address CLUSTER"),
            ".venv/bin/marin cluster down": (KEPT, ""),
            f"./py {MANTIS} --address HOST:PORT": (
                "another address",
                f"./py {MANTIS} --rebuild train/mantis --address CLUSTER",
            ),
            "ray list tasks": ("another address", "ray list tasks --address DASHBOARD"),
        },
        fills={"STEP": "train/mantis"},
    )
}
EVERY = {**TABLE, **OF_A_PROJECT, **OF_A_CLUSTER}
GIVEN = {name(page): found for page in PAGES if (found := commands(page))}


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    with Forks("operators.datasets.held_out", "operators.filter", "operators.train_tokenizer") as server:
        yield server


@pytest.fixture(scope="module")
def made(forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    return make(forks, tmp_path_factory.mktemp("docs"))


def test_every_page_with_a_command_is_run_and_no_other_is_listed() -> None:
    assert sorted(GIVEN) == sorted(EVERY)
    assert sum(map(len, GIVEN.values())) >= 120


@pytest.mark.parametrize("page", GIVEN)
def test_what_is_said_of_a_page_is_about_a_command_on_it(page: str) -> None:
    texts, of = {command.text for command in GIVEN[page]}, EVERY[page]
    assert {*of.instead, *of.codes, *of.before} <= texts
    assert [old for old in of.fills if not any(old in text for text in texts)] == []


@pytest.mark.parametrize("page", GIVEN)
def test_what_runs_elsewhere_is_there(page: str) -> None:
    """The named test of a marin command holds the subcommand as a word, and a named page runs the command."""
    for text, (why, _) in EVERY[page].instead.items():
        name, rest = program_and_rest(text)
        words = re.findall(r"(?<!\S)[a-z]+\b", rest)[:2]
        for test in re.findall(r"tests/\S+\.py", why):
            source = (ROOT / test).read_text()
            of_marin = name.endswith("marin") and why not in (REGISTRY, CHECKS)
            assert [word for word in words if of_marin and f'"{word}"' not in source] == [], (text, test)
        for other in re.findall(r"howto/\S+\.md", why):
            of = EVERY[other]
            lines = [of.instead.get(each.text, ("", each.text))[1] for each in GIVEN[other]]
            assert any(f"{name} {words[0]}" in line for line in lines), (text, other)


def quick(line: str) -> str:
    """Return a run's command without Ray, because Ray takes ten seconds to start and to end."""
    runs = re.search(r"marin run |(?:\./py|python) \S*exp", line) and not re.search(
        "--(?:backend|address|dry-run)", line
    )
    return f"{line} --backend inline" if runs else line


def runs_as_given(lab: Lab, page: Page, given: list[Command]) -> None:
    for command in given:
        page.before.get(command.text, lambda _: None)(lab)
        _, line = page.instead.get(command.text, ("", command.text))
        for old, new in page.fills.items():
            line = line.replace(old, new) if line == command.text or old in line else line
        if not line:
            continue
        for place, value in lab.places.items():
            line = line.replace(place, value)
        ended = lab.serve(line) if "marin serve" in line else lab.run(quick(line))
        assert ended.code == page.codes.get(command.text, 0), f"{command.text}\nran as: {line}\n{ended.said}"
        if page.prints and command.text not in page.instead:
            is_printed(command, ended, lab)


def is_printed(command: Command, ended: Ended, lab: Lab) -> None:
    """Assert that the output holds each line of the page. A terminal shows fewer columns of a table than a pipe."""
    said = [skeleton(line, lab).split() for line in ended.said.splitlines()]
    for line in command.prints:
        shown = skeleton(line.removesuffix("…"), lab).split()
        found = any(all(word in words for word in shown) for each in said for words in [iter(each)])
        assert found, f"{command.text}\nthe page shows {line!r}; it printed\n{ended.said}"


def skeleton(line: str, lab: Lab) -> str:
    """Return a line without the parts that differ between runs: places, digits, people."""
    places = {"data": "/data/own", "../backup": "/mnt/backup/store", ".": "/home/ada/marin"}
    for place, shown in places.items():
        line = line.replace(str((lab.folder / place).resolve()), shown)
    line = re.sub(r"\b[0-9a-f]{8,64}\b|\b[0-9a-f]{12,64}(?=…)", "#", line)
    line = re.sub(r"\b\w+@[\w-]+|\bby \w+\b", "by ada", line)
    line = re.sub(r"127\.0\.0\.1:\d+/\S+", "an address", line)
    line = re.sub(r"\d[\d,.:]*(?:-\d+)?", "0", line)
    return re.sub("0 (?:KiB|B|MiB|ms|s|min)", "0", line)


COSTLY = {"README.md", "commands.md", "drift.md"}  # ten seconds of a core and more, each
COSTS = [pytest.param(page, marks=[pytest.mark.slow] if page in COSTLY else []) for page in TABLE]


@pytest.mark.parametrize("page", COSTS)
def test_the_commands_of_a_page_run(page: str, made: Lab, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    lab = made.copied(tmp_path / "marin")
    if any("gs://" in command.text for command in GIVEN[page]):
        server: StoreServer = request.getfixturevalue("_gs")
        lab.places["BUCKET"], lab.environment = server.new_prefix(), server.environment
    runs_as_given(lab, TABLE[page], GIVEN[page])


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_the_commands_about_a_project_of_ones_own_run(made: Lab, tmp_path: Path) -> None:
    """All these pages share one store."""
    lab = made.copied(tmp_path / "marin")
    lab.home = tmp_path / "home"
    lab.home.mkdir()
    for page, of in OF_A_PROJECT.items():
        runs_as_given(lab, of, GIVEN[page])
    assert lab.folder == tmp_path / "my_project"
    (swept,) = (lab.folder / "store/sweep").glob("sweep-*")
    points = json.loads((swept / "report.json").read_text())["points"]
    assert [(each["point"], sorted(each["runs"])) for each in points] == [([0.002], ["0", "1"]), ([0.005], ["0", "1"])]
    assert len(list((lab.folder / "store/train").iterdir())) == 6, "two of the first experiment, and four"


@pytest.mark.slow
def test_the_commands_about_a_cluster_run(made: Lab, tmp_path: Path, cluster: RayCluster) -> None:
    lab = made.copied(tmp_path / "marin")
    lab.environment = {**cluster.environment, "RAY_ADDRESS": ""}
    lab.places = {"CLUSTER": cluster.address, "DASHBOARD": cluster.dashboard, "LAB": str(lab.folder)}
    lab.places["PYTHON"] = sys.executable
    runs_as_given(lab, OF_A_CLUSTER["howto/ray.md"], GIVEN["howto/ray.md"])
