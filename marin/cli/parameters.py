"""Declare the options and arguments of a command as the defaults of a function's parameters.

    @command_line()
    def command(step: str = argument(), down: bool = flag("--down", "Show the readers.")) -> int:

Options that several commands share are the fields of a dataclass. One parameter takes them all: ``all_of`` the class.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

import click

from marin.cli.completions import Completer
from marin.cli.exits import guarded
from marin.errors import BadField

type Decorator = Callable[[Callable[..., int]], click.Command]


@dataclass(frozen=True, eq=False)
class Declared:
    """One option or argument."""

    kind: Callable[..., click.Parameter]
    names: Sequence[str]
    attributes: Mapping[str, Any]

    def parameter(self, name: str) -> click.Parameter:
        return self.kind([*self.names, name], **self.attributes)


def option(*names_and_help: str, complete: Completer | None = None, **attributes: Any) -> Any:
    """Declare an option. complete: the completer for Tab. attributes: attributes of click.Option.

    Help shows a default unless it is None or empty.
    """
    *names, text = names_and_help
    shown = {"show_default": attributes.get("default") not in (None, "")}
    return Declared(click.Option, names, {"help": text, "shell_complete": complete, **shown, **attributes})


def flag(*names_and_help: str) -> Any:
    return option(*names_and_help, is_flag=True)


def reason(*names_and_help: str) -> Any:
    return option(*names_and_help, default="", metavar="REASON")


def choice[E: Enum](name: str, choices: type[E], text: str, default: E | None = None, **attributes: Any) -> Any:
    kind = click.Choice(choices, case_sensitive=False)
    return option(name, text, type=kind, default=default, show_default=default and default.name.lower(), **attributes)


def argument(complete: Completer | None = None, **attributes: Any) -> Any:
    """Declare an argument. attributes: attributes of click.Argument."""
    return Declared(click.Argument, (), {"shell_complete": complete, **attributes})


def all_of(group: type[Any]) -> Any:
    """Declare all options among the fields of a dataclass."""
    return group


class Parsed[T](click.ParamType[T]):
    """A type of option values. parse: raises BadField, which click reports as wrong usage."""

    def __init__(self, name: str, parse: Callable[[str], T]) -> None:
        self.name, self.parse = name, parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        if not isinstance(value, str):
            return value
        try:
            return self.parse(value)
        except BadField as error:
            self.fail(str(error), param, ctx)


def command_line(kind: Callable[..., click.Command] = click.Command, text: str = "") -> Decorator:
    """Return a decorator that makes a command of a function. The function returns the exit code (docs/exit-codes.md).

    text: text of --help; by default the function's docstring.
    """

    def made(work: Callable[..., int]) -> click.Command:
        declared = {name: parameter.default for name, parameter in inspect.signature(work).parameters.items()}
        groups = {name: _options(group) for name, group in declared.items() if not isinstance(group, Declared)}

        def run(**given: Any) -> None:
            whole = {name: declared[name](**{each: given.pop(each) for each in of}) for name, of in groups.items()}
            sys.exit(guarded(lambda: work(**given, **whole)))

        every = [(at, each) for name, one in declared.items() for at, each in groups.get(name, {name: one}).items()]
        parameters = [each.parameter(name) for name, each in every]
        return kind(work.__name__, callback=run, params=parameters, help=text or inspect.getdoc(work))

    return made


def _options(group: type[Any]) -> dict[str, Declared]:
    return {each.name: each.default for each in fields(group) if isinstance(each.default, Declared)}
