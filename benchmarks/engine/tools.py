"""The tools that are compared: pinned versions, commands, and what to know about each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Answer(StrEnum):
    """The place of the last layer's values: files of the folder, the program's output, or our store."""

    FILES = "files"
    PRINTED = "printed"
    STORE = "store"


class Phase(StrEnum):
    """PREPARE is not timed. COLD: from nothing. CACHED: nothing changed since. PLAN: what would run now."""

    PREPARE = "prepare"
    COLD = "cold"
    CACHED = "cached"
    PLAN = "plan"


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool that is compared. requires: pinned packages; empty for this project's own environment.

    prepare, cold, cached, plan: argument lists of the commands. Commands and variables may name {bin}, {peers},
    {folder}, {steps} and {jobs}. {bin} is the folder of the environment's programs, {peers} the folder of the programs
    below, {folder} the cell's own folder (the working directory), {jobs} the number of processors. environment: the
    tool whose environment this tool shares.
    """

    name: str
    requires: tuple[str, ...] = ()
    environment: str = ""
    prepare: tuple[str, ...] = ()
    cold: tuple[str, ...]
    cached: tuple[str, ...] = ()
    plan: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    answer: Answer = Answer.PRINTED
    note: str = ""


def _python(program: str, *arguments: str) -> tuple[str, ...]:
    return ("{bin}/python", f"{{peers}}/{program}", *(arguments or ("{folder}", "{steps}")))


_NINJA = ("{bin}/ninja", "-j", "{jobs}", "--quiet")
_SNAKEMAKE = (
    *("{bin}/snakemake", "-s", "{peers}/Snakefile", "--cores", "{jobs}", "--quiet", "all"),
    *("--rerun-triggers", "mtime", "--nolock"),
)
_BY_VARIABLES = {"BENCH_STEPS": "{steps}", "BENCH_FOLDER": "{folder}"}
_EXPERIMENT = ("{bin}/python", "experiment.py", "--prefix", "{folder}/store")
_WRITE_EXPERIMENT = _python("marin_files.py")
_WRITE_LAYERS = _python("marin_files.py", "{folder}", "{steps}", "marin_layers.py")
_METAFLOW = ("{bin}/python", "flow.py", "--quiet", "--no-pylint")
_METAFLOW_LIMITS = ("--max-workers", "{jobs}", "--max-num-splits", "1000000")

TOOLS = (
    Tool(
        name="ninja",
        requires=("ninja==1.13.2",),
        prepare=_python("ninja_files.py"),
        cold=_NINJA,
        cached=_NINJA,
        plan=(*_NINJA, "-n"),
        answer=Answer.FILES,
        note="the floor: compares times of files, and a shell command a step",
    ),
    Tool(
        name="doit",
        requires=("doit==0.37.0",),
        cold=("{bin}/doit", "-f", "{peers}/dodo.py", "-d", "{folder}"),
        cached=("{bin}/doit", "-f", "{peers}/dodo.py", "-d", "{folder}"),
        variables=_BY_VARIABLES,
        answer=Answer.FILES,
        note="Python actions in one process; MD5 of files whose time changed",
    ),
    Tool(
        name="luigi",
        requires=("luigi==3.8.1",),
        cold=_python("luigi_dag.py"),
        cached=_python("luigi_dag.py"),
        answer=Answer.FILES,
        note="a task is complete when its file exists; a rerun looks at the last layer only",
    ),
    Tool(
        name="joblib",
        requires=("joblib==1.6.0",),
        cold=_python("joblib_dag.py"),
        cached=_python("joblib_dag.py"),
        note="function calls in order, no scheduler; keyed by arguments and the function's own source",
    ),
    Tool(
        name="hamilton",
        requires=("sf-hamilton==1.90.0",),
        prepare=_python("hamilton_module.py"),
        cold=_python("hamilton_dag.py"),
        cached=_python("hamilton_dag.py"),
        note="its cache on; one process",
    ),
    Tool(
        name="snakemake",
        requires=("snakemake==9.27.1",),
        cold=_SNAKEMAKE,
        cached=_SNAKEMAKE,
        plan=(*_SNAKEMAKE, "-n"),
        variables={**_BY_VARIABLES, "XDG_CACHE_HOME": "{folder}/home", "HOME": "{folder}/home"},
        answer=Answer.FILES,
        note="only times of files trigger, no lock: its quickest",
    ),
    Tool(
        name="prefect",
        requires=("prefect==3.8.8", "fastapi==0.150.0"),
        cold=_python("prefect_flow.py"),
        cached=_python("prefect_flow.py"),
        variables={
            "PREFECT_HOME": "{folder}/prefect",
            "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "true",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_LOGGING_LEVEL": "ERROR",
            "DO_NOT_TRACK": "1",
        },
        note="ephemeral server, results persisted, cached by inputs; the server's start is in every run",
    ),
    Tool(
        name="redun",
        requires=("redun==0.44.1",),
        cold=_python("redun_dag.py"),
        cached=_python("redun_dag.py"),
        variables={"HOME": "{folder}/home"},
        note="SQLite, threads",
    ),
    Tool(
        name="metaflow",
        requires=("metaflow==2.19.39",),
        prepare=_python("metaflow_dag.py"),
        cold=(*_METAFLOW, "run", *_METAFLOW_LIMITS),
        cached=(*_METAFLOW, "resume", "end", *_METAFLOW_LIMITS),
        variables={
            **_BY_VARIABLES,
            "METAFLOW_DATASTORE_SYSROOT_LOCAL": "{folder}",
            "METAFLOW_HOME": "{folder}/home",
            "METAFLOW_USER": "bench",
            "USERNAME": "bench",
        },
        note="a foreach and a join a layer, a process a step; no cache: `resume` clones the last run",
    ),
    Tool(
        name="dagster",
        requires=("dagster==1.13.28",),
        cold=_python("dagster_dag.py"),
        cached=_python("dagster_dag.py"),
        variables={"DAGSTER_HOME": "{folder}/home", "DAGSTER_DISABLE_TELEMETRY": "yes"},
        note="assets with a code version, in process; a rerun asks for what is missing or stale (internal interface)",
    ),
    Tool(
        name="dvc",
        requires=("dvc==3.67.1",),
        prepare=_python("dvc_files.py"),
        cold=("{bin}/dvc", "repro", "-q"),
        cached=("{bin}/dvc", "repro", "-q"),
        plan=("{bin}/dvc", "status", "-q"),
        variables={"DVC_NO_ANALYTICS": "1", "DVC_SITE_CACHE_DIR": "{folder}/site", "HOME": "{folder}/home"},
        answer=Answer.FILES,
        note="a stage a step, no Git",
    ),
    Tool(
        name="ray-tasks",
        requires=("ray[default]==2.60.0",),
        cold=_python("ray_tasks.py"),
        note="no cache, no files, no records: the floor for anything that runs on Ray",
    ),
    Tool(
        name="ray-tasks-here",
        cold=_python("ray_tasks.py"),
        note="the same in this project's environment, where Ray finds more packages to load when it starts",
    ),
    Tool(
        name="upstream-june",
        requires=("marin-core==0.2.31.dev202606291014", "gitpython==3.1.45"),
        cold=_python("marin_june_dag.py", "--prefix", "{folder}/store"),
        cached=_python("marin_june_dag.py", "--prefix", "{folder}/store"),
        plan=_python("marin_june_dag.py", "--prefix", "{folder}/store", "--dry_run", "true"),
        variables={**_BY_VARIABLES, "MARIN_PREFIX": "{folder}/store"},  # without it, it asks the network where it runs
        note="Marin's own executor of June 2026; steps in threads of the driver",
    ),
    Tool(
        name="upstream-october",
        requires=("marin-core==0.2.227.dev40316220070",),
        cold=_python("marin_october_dag.py"),
        cached=_python("marin_october_dag.py"),
        plan=_python("marin_october_dag.py", "{folder}", "{steps}", "--dry-run"),
        note="Marin's own runner of October 2026; threads; a rerun looks at the last layer, a plan reads no store",
    ),
    Tool(
        name="marin",
        prepare=_WRITE_EXPERIMENT,
        cold=(*_EXPERIMENT, "--backend", "inline"),
        cached=(*_EXPERIMENT, "--backend", "inline"),
        plan=("{bin}/marin", "plan", "experiment.py", "--prefix", "{folder}/store"),
        answer=Answer.STORE,
        note="this project, one process; every record, manifest and claim written",
    ),
    Tool(
        name="marin-layers",
        prepare=_WRITE_LAYERS,
        cold=(*_EXPERIMENT, "--backend", "inline"),
        cached=(*_EXPERIMENT, "--backend", "inline"),
        plan=("{bin}/marin", "plan", "experiment.py", "--prefix", "{folder}/store"),
        answer=Answer.STORE,
        note="this project, one process; a step for each layer, which makes all values of its layer",
    ),
    Tool(
        name="marin-on-ray",
        prepare=_WRITE_EXPERIMENT,
        cold=(*_EXPERIMENT, "--backend", "ray"),
        cached=(*_EXPERIMENT, "--backend", "ray"),
        answer=Answer.STORE,
        note="this project on a local Ray cluster, which a cached run does not start",
    ),
)
