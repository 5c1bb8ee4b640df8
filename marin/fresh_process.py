"""What modules hold in a new Python process that has imported them and done nothing else."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

_PROGRAM = (
    "import json, sys\n"
    "asked = json.load(sys.stdin)\n"
    "sys.path[:], sys.argv[:] = asked['path'], asked['argv']\n"
    "from marin.fresh_process import answer\n"
    "answer(asked['questions'])\n"
)

type Descriptions = Mapping[str, Mapping[str, Mapping[str, str]]]  # of modules' names: see marin.module_state


@dataclass(frozen=True, kw_only=True)
class Question:
    """imports: modules, in order. names: what is asked about, by module; those are imported last."""

    imports: Sequence[str]
    names: Mapping[str, Sequence[str]]


def ask(questions: Sequence[Question], hash_seed: int) -> list[Descriptions | None]:
    """One answer each, none of them knowing what the others import; None where an import fails there."""
    asked = {"path": sys.path, "argv": sys.argv, "questions": [asdict(question) for question in questions]}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        input=json.dumps(asked).encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # what imports have to say was said when this process imported the same
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        check=False,
    )
    lines = done.stdout.decode().splitlines()
    answers: list[Any] = [json.loads(line) for line in lines]
    return [*answers, *[None] * (len(questions) - len(answers))]


def answer(questions: Sequence[Mapping[str, Any]]) -> None:
    """In the new process: one line of JSON for each question, from a fork that imports for it alone."""
    from marin.module_state import described  # once, before the forks

    told = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for question in questions:
        child = os.fork()
        if child == 0:
            os._exit(_answer(question, told, described))
        if os.waitpid(child, 0)[1] != 0:
            os.write(told, b"null\n")


def _answer(question: Mapping[str, Any], told: int, described: Callable[[object], dict[str, str]]) -> int:
    try:
        for name in (*question["imports"], *question["names"]):
            importlib.import_module(name)
        found = {
            module: {
                name: described(vars(sys.modules[module])[name]) for name in names if name in vars(sys.modules[module])
            }
            for module, names in question["names"].items()
        }
        text = json.dumps(found)
    except BaseException:  # whatever an import can raise, SystemExit among it
        return 1
    with os.fdopen(told, "w", encoding="utf-8") as out:
        out.write(text + "\n")
    return 0
