"""``marin new``: write a small project, or another experiment in one, from the files of ``marin/cli/project``."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import click

from marin.cli.exits import Exit
from marin.cli.parameters import argument, command_line, option
from marin.errors import ExperimentError

FILES = Path(__file__).with_name("project")
NAME = "my_project"  # the name of the project in these files
RENAMED = {"gitignore": ".gitignore"}  # here the name .gitignore would hide files of marin's
EXPERIMENT = "new_experiment.py"  # the template of another experiment
SHARED = "own_text.py"  # the module of a project's package that experiments build on
TAKEN = {"experiment", "experiments", "infra", "model", "operators", "store", "tests", "text"}
LEGAL = re.compile(r"[a-z][a-z0-9_]{0,39}")


@command_line()
def command(
    words: tuple[str, ...] = argument(metavar="PROJECT | experiment NAME", nargs=-1, required=True),
    issue: int | None = option(
        "--issue", "The number of the experiment; the next free number by default.", type=click.IntRange(min=1)
    ),
) -> int:
    """Make a project (an experiment on a folder of text, an operator, its test, a README), or an experiment in one.

    PROJECT is a new folder. The command overwrites nothing and touches no git repository. `marin new model
    hf:OWNER/NAME@COMMIT`, or `marin new model FOLDER`, prints the lines that declare a published model.
    """
    if words[0] == "model":
        from marin.cli.new_model import model_code

        if len(words) != 2:
            raise click.UsageError("wanted one model: marin new model hf:OWNER/NAME@COMMIT, or a folder")
        click.echo(model_code(words[1]))
    elif words[0] == "experiment":
        if len(words) != 2:
            raise click.UsageError("an experiment has one name: marin new experiment NAME")
        _new_experiment(words[1], issue)
    elif len(words) != 1:
        raise click.UsageError(f"a project has one name; wanted marin new {words[0]}, or marin new experiment NAME")
    elif issue is not None:
        raise click.UsageError(f"--issue is the number of an experiment: marin new experiment NAME --issue {issue}")
    else:
        _new_project(Path(words[0]))
    return Exit.OK


def _new_project(folder: Path) -> None:
    from pydoc_data.topics import topics

    from marin.report.typed import marin

    name = folder.name
    _must_be_legal(name, "project")
    installed = name.split("_")[0] == "marin" or name in metadata.packages_distributions()
    if name in TAKEN or name in sys.stdlib_module_names or installed:
        raise click.UsageError(f"a project cannot be called {name!r}: Python or marin has something of that name")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ExperimentError(f"{folder} exists already; nothing was written. Choose another name, or delete it")
    project = {
        RENAMED.get(file, file.replace(NAME, name)): (FILES / file).read_text().replace(NAME, name)
        for file in project_files()
    }
    _write(folder, project)
    # Every Python holds the reference of its language; each page becomes a file.
    _write(folder / "text", examples := {f"{each.lower()}.txt": text for each, text in sorted(topics.items())})
    click.echo(f"made {folder}: {len(project)} files, and {len(examples)} pages of Python's reference as its text")
    click.echo(f"next: cd {click.format_filename(folder)}")
    click.echo(f"next: {marin('run', 'exp1_filter.py', folder=str(folder))}")


def _new_experiment(name: str, issue: int | None) -> None:
    from marin.report.typed import marin

    _must_be_legal(name, "experiment")
    package = _package_here()
    numbers = [int(found[1]) for path in Path().glob("exp*.py") if (found := re.match(r"exp(\d+)(_|$)", path.stem))]
    number = issue or 1 + max(numbers, default=0)
    file = Path(f"exp{number}_{name}.py")
    if file.exists():
        raise ExperimentError(f"{file} exists already; nothing was written. Choose another name or --issue")
    text, spoken = (FILES / EXPERIMENT).read_text(), name.replace("_", " ")
    for old, new in (
        (NAME, package),
        ("Exp 2: learning rate", f"Exp {number}: {spoken}"),
        ("issue=2", f"issue={number}"),
        ('label="learning rate"', f'label="{spoken}"'),
    ):
        text = text.replace(old, new)
    _write(Path(), {str(file): text})
    click.echo(f"made {file}: write down its question")
    click.echo(f"next: {marin('run', str(file), '--dry-run')}")


def project_files() -> list[str]:
    """Return the relative paths of a new project's files, without caches of Python and ruff among them."""
    paths = [path.relative_to(FILES) for path in sorted(FILES.rglob("*")) if path.is_file()]
    kept = [path for path in paths if not any(part.startswith((".", "__pycache__")) for part in path.parts)]
    return [str(path) for path in kept if path.name != EXPERIMENT]


def _must_be_legal(name: str, what: str) -> None:
    """Raise UsageError unless name can name a Python module. The message suggests a near name that can."""
    if LEGAL.fullmatch(name) and not keyword.iskeyword(name):
        return
    near = re.sub(r"\W+", "_", re.sub(r"^[\W\d_]+", "", name.lower()), flags=re.ASCII).strip("_")[:40]
    hint = f"; did you mean {near}?" if LEGAL.fullmatch(near) and not keyword.iskeyword(near) else ""
    raise click.UsageError(
        f"{name!r} is no name for {'an' if what[0] == 'e' else 'a'} {what}: wanted up to 40 lower-case letters, digits "
        f"and underscores, a letter first, and no keyword of Python{hint}"
    )


def _package_here() -> str:
    """Return the package of the project in this folder. Raises ExperimentError if there is no project."""
    packages = [path.parent.name for path in Path().glob(f"*/{SHARED}")]
    if len(packages) != 1:
        raise ExperimentError(
            f"{Path().absolute()} is no project: wanted one folder here with a {SHARED}, as `marin new {NAME}` makes. "
            "Go to the folder of a project, or make a project"
        )
    return packages[0]


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files into a folder. Raises ExperimentError if a file cannot be written."""
    for name, text in files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        except OSError as error:
            raise ExperimentError(f"{path} cannot be written: {error.strerror}") from error
