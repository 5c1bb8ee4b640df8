"""``marin new``: a small project, or another experiment in one. Both are written from ``marin/cli/project``."""

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
NAME = "my_project"  # what the files call the project
RENAMED = {"gitignore": ".gitignore"}  # here its name would hide files of marin's
EXPERIMENT = "new_experiment.py"  # what another experiment begins as
SHARED = "own_text.py"  # of a project's package: what experiments build on
TAKEN = {"experiment", "experiments", "infra", "model", "operators", "store", "tests", "text"}
LEGAL = re.compile(r"[a-z][a-z0-9_]{0,39}")


@command_line()
def command(
    words: tuple[str, ...] = argument(metavar="PROJECT | experiment NAME", nargs=-1, required=True),
    issue: int | None = option("--issue", "Of the experiment; the next number without it.", type=click.IntRange(min=1)),
) -> int:
    """Make a project: an experiment on a folder of text, an operator, its test, a README. Or another experiment in one.

    PROJECT is a folder that is not there yet. Nothing is overwritten, and no git repository is touched. `marin new
    model hf:OWNER/NAME@COMMIT`, or a folder, prints the lines that declare a published model.
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
        raise click.UsageError(f"--issue is an experiment's: marin new experiment NAME --issue {issue}")
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
        raise ExperimentError(f"{folder} exists already; nothing was written. Choose another name, or take it away")
    project = {
        RENAMED.get(file, file.replace(NAME, name)): (FILES / file).read_text().replace(NAME, name)
        for file in project_files()
    }
    _write(folder, project)
    # The reference of Python's language that every installation holds, a page a file.
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
    click.echo(f"made {file}: write down what it asks")
    click.echo(f"next: {marin('run', str(file), '--dry-run')}")


def project_files() -> list[str]:
    """Relative paths of what a project begins with; caches of Python and ruff that lie among them are none of it."""
    paths = [path.relative_to(FILES) for path in sorted(FILES.rglob("*")) if path.is_file()]
    kept = [path for path in paths if not any(part.startswith((".", "__pycache__")) for part in path.parts)]
    return [str(path) for path in kept if path.name != EXPERIMENT]


def _must_be_legal(name: str, what: str) -> None:
    """Raises UsageError for what is no name of a Python module, with one that is."""
    if LEGAL.fullmatch(name) and not keyword.iskeyword(name):
        return
    near = re.sub(r"\W+", "_", re.sub(r"^[\W\d_]+", "", name.lower()), flags=re.ASCII).strip("_")[:40]
    hint = f"; did you mean {near}?" if LEGAL.fullmatch(near) and not keyword.iskeyword(near) else ""
    raise click.UsageError(
        f"{name!r} is no name for {'an' if what[0] == 'e' else 'a'} {what}: wanted up to 40 lower-case letters, digits "
        f"and underscores, a letter first, and no word of Python's{hint}"
    )


def _package_here() -> str:
    """Of the project whose folder this is. Raises ExperimentError where there is none."""
    packages = [path.parent.name for path in Path().glob(f"*/{SHARED}")]
    if len(packages) != 1:
        raise ExperimentError(
            f"{Path().absolute()} is no project: wanted one folder here with a {SHARED}, as `marin new {NAME}` makes. "
            "Go to the folder of a project, or make one"
        )
    return packages[0]


def _write(folder: Path, files: Mapping[str, str]) -> None:
    """Raises ExperimentError where the folder cannot be written to."""
    for name, text in files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        except OSError as error:
            raise ExperimentError(f"{path} cannot be written: {error.strerror}") from error
