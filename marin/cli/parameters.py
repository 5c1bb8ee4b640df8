"""How a command declares what it takes: an option or argument is the default of the parameter that it becomes.

    @command_line()
    def command(step: str = argument(), down: bool = flag("--down", "What was made from it.")) -> int:

Options that several commands take are the fields of a dataclass, and together one parameter: ``all_of`` it.
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

    def parameters(self, name: str) -> list[click.Parameter]:
        return [self.kind([*self.names, name], **self.attributes)]

    def value(self, name: str, given: Mapping[str, Any]) -> Any:
        return given[name]


class Group:
    """All options among the fields of a dataclass."""

    def __init__(self, group: type[Any]) -> None:
        self.group = group
        self.fields = {each.name: each.default for each in fields(group) if isinstance(each.default, Declared)}

    def parameters(self, _: str) -> list[click.Parameter]:
        return [parameter for name, each in self.fields.items() for parameter in each.parameters(name)]

    def value(self, _: str, given: Mapping[str, Any]) -> Any:
        return self.group(**{name: given[name] for name in self.fields})


def option(*names_and_help: str, complete: Completer | None = None, **attributes: Any) -> Any:
    """complete: what Tab offers. attributes: those of click.Option; a default is shown unless it is nothing."""
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
    """attributes: those of click.Argument."""
    return Declared(click.Argument, (), {"shell_complete": complete, **attributes})


def all_of(group: type[Any]) -> Any:
    return Group(group)


class Parsed[T](click.ParamType[T]):
    """parse: raises BadField, which is a wrong command line here."""

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
    """The command that ends the process with the code that a function returns; see docs/exit-codes.md.

    text: for --help; without it the function's docstring.
    """

    def made(work: Callable[..., int]) -> click.Command:
        declared = {name: parameter.default for name, parameter in inspect.signature(work).parameters.items()}

        def run(**given: Any) -> None:
            sys.exit(guarded(lambda: work(**{name: each.value(name, given) for name, each in declared.items()})))

        parameters = [parameter for name, each in declared.items() for parameter in each.parameters(name)]
        return kind(work.__name__, callback=run, params=parameters, help=text or inspect.getdoc(work))

    return made
