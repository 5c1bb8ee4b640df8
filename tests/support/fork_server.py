"""``python -m tests.support.fork_server MODULE…``: runs experiment files and commands of ``marin`` as children.

One JSON request a line, one exit code a line. A child is a process of its own. It differs from a new interpreter only
in one respect: its import of the engine took no time.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from typing import Any

import marin.cli.commands
import marin.executor.backends.inline
import marin.plan.cost.plan_cost
import marin.report.closing
import marin.report.page.render
import marin.report.page.write
from marin.fingerprint.of_step import code_fingerprint
from tests.support.faults.server import driven, exit_code
from tests.support.toy import Join, Write

INTERPRETERS = list(sys.path[2:])  # without this folder, which -m and PYTHONPATH put first


def main() -> None:
    commands = map(marin.cli.commands.module_of, marin.cli.commands.LINES)
    for name in (*(f"marin.cli.{command}" for command in commands), *sys.argv[1:]):
        importlib.import_module(name)
    code_fingerprint(Join(parts=(Write(text=""),)))  # reads the engine's source, for all that follow
    templates = marin.report.page.render._templates()  # and compiles the page's templates
    for name in templates.list_templates(["html"]):
        templates.get_template(name)
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    gc.freeze()  # a child that collects garbage would copy every page
    for line in requests:
        child = os.fork()
        if child == 0:
            become(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers)


def become(job: dict[str, Any]) -> None:
    """Run the job that was asked for; see tests.support.forks."""
    for stream, name in ((1, job["out"]), (2, job["err"])):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
    if job["reader_gone"]:
        reading, writing = os.pipe()
        os.close(reading)
        os.dup2(writing, 1)
        os.close(writing)
    os.environ.clear()
    os.environ.update(job["environment"])
    os.chdir(job["folder"])
    sys.path[:] = [*job["path"], *INTERPRETERS]
    gc.unfreeze()
    os._exit(driven(job["file"], job["arguments"]) if job["file"] else commanded(job["arguments"]))


def commanded(arguments: list[str]) -> int:
    """Exit code of ``marin ARGUMENT…``."""
    return exit_code(["marin", *arguments], lambda: marin.cli.commands.main(arguments), crashed=99)


if __name__ == "__main__":
    main()
