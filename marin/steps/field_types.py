"""Check in depth that the fields of a dataclass hold values of their annotated types, when an instance is made.

marin reads the annotations of a class once, at its first instance. It does not check an annotation that cannot be
resolved (a name that only the type checker imports, a type variable). An int fits where a float is wanted, as in all of
Python, and stays an int: ``1`` and ``1.0`` are different identities, so a conversion would lose the existing outputs.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from types import NoneType, SimpleNamespace, UnionType, get_original_bases
from typing import Any, TypeAliasType, TypeVar, cast

from marin.errors import BadField
from marin.steps.definitions import same_definition
from marin.steps.encoding import EXECUTION, name_of
from marin.steps.misfit import Misfit, choose_member, give_step, make_one, make_tuple, to_number

_ATTRIBUTE = "__marin_checked_fields__"
MAKES = "__marin_makes__"  # a class method of steps, which returns their artifact

type Check = Callable[[Any], Misfit | None]


@dataclass(frozen=True, slots=True)
class CheckedField:
    name: str
    default: object  # this value needs no check
    execution: bool
    exact: type | None  # instances of exactly this class need no check
    check: Check


def check_fields(instance: object) -> None:
    """Raise BadField for a wrong field, naming the field, the value, the type wanted and the text to write instead."""
    for spec in fields_of(type(instance)):
        check_field(instance, spec, getattr(instance, spec.name))


def check_field(instance: object, spec: CheckedField, value: object) -> None:
    if value is spec.default or type(value) is spec.exact:
        return
    if (misfit := spec.check(value)) is not None:
        raise BadField(misfit.describe(f"{type(instance).__name__}.{spec.name}"))


def fields_of(cls: type) -> list[CheckedField]:
    """Return the fields with their checks. The class holds them; a cache would keep the class alive."""
    if (known := cls.__dict__.get(_ATTRIBUTE)) is None:
        known = list[CheckedField]()
        for spec in dataclasses.fields(cls):
            hint = hint_of(cls, spec.name)
            exact = hint if isinstance(hint, type) else None
            known.append(CheckedField(spec.name, spec.default, EXECUTION in spec.metadata, exact, _try_check_for(hint)))
        setattr(cls, _ATTRIBUTE, known)
    return known


def hint_of(cls: type, name: str) -> Any:
    """Return the type that a field is annotated with; Any if it cannot be resolved."""
    for owner in cls.__mro__:
        if name in (annotations := inspect.get_annotations(owner)):
            return resolved(annotations[name], owner)
    return Any


def resolved(annotation: Any, owner: type) -> Any:
    """Return an annotation in the body of ``owner``; Any if it cannot be resolved."""
    names = {each.__name__: each for each in (owner, *owner.__type_params__)}
    space = vars(sys.modules[owner.__module__]) if owner.__module__ in sys.modules else {}
    try:
        return typing.get_type_hints(SimpleNamespace(__annotations__={"it": annotation}), space, names)["it"]
    except Exception:  # evaluation may raise anything; the annotation is then for type checkers alone
        return Any


def argument_of(cls: type, root: type) -> Any:
    """Return the argument that a subclass gives the generic class ``root``, through the classes between; else Any.

    For an operator, the argument is the artifact that it makes."""
    for base in get_original_bases(cls):
        origin = typing.get_origin(base) or base
        if not (isinstance(origin, type) and issubclass(origin, root)):
            continue
        given = typing.get_args(base)
        if origin is root:
            return given[0] if given else Any
        found, parameters = argument_of(origin, root), cast(tuple[Any, ...], getattr(origin, "__parameters__", ()))
        return dict(zip(parameters, given, strict=False)).get(found, found)
    return Any


def _anything(_value: Any) -> None:
    """Accept every value: marin knows nothing about the type."""


def _try_check_for(hint: Any) -> Check:
    try:
        return _check_for(hint.__value__ if isinstance(hint, TypeAliasType) else hint)
    except Exception:  # the alias names a type that cannot be resolved
        return _anything


_of_alias = functools.cache(_try_check_for)


def _check_for(hint: Any) -> Check:
    if isinstance(hint, TypeAliasType):
        return lambda value: _of_alias(hint)(value)  # resolved at first use, because an alias may name itself
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _check_for(args[0])
    if origin is typing.Union or origin is UnionType:
        return _union([_check_for(arg) for arg in args], write_type(hint))
    if origin is typing.Literal:
        return _literal(args)
    if isinstance(origin, TypeAliasType):
        return _check_for(_substituted(origin.__value__, dict(zip(origin.__type_params__, args, strict=False))))
    cls = NoneType if hint is None else origin or hint
    return _class(cls, args, write_type(hint)) if _is_class(cls) and cls not in (object, type) else _anything


def _class(cls: Any, args: tuple[Any, ...], wanted: str) -> Check:
    if cls in (int, float):
        return _number(cls)
    if cls is tuple:
        return _tuple(args, wanted)
    if issubclass(cls, Mapping):
        return _mapping(*(args if len(args) == 2 else (Any, Any)), wanted)
    if issubclass(cls, AbstractSet):
        return _items(AbstractSet, args, wanted)
    if cls in (list, Sequence, Collection, Iterable):
        return _items(cls, args, wanted)
    if hasattr(cls, MAKES):
        return _step(cls, args[0] if args else Any, wanted)
    try:
        isinstance(None, cls)
    except TypeError:  # a protocol or a typed dict
        return _anything
    return _instance(cls, args, wanted)


def _is_instance(value: object, cls: type) -> bool:
    return isinstance(value, cls) or any(same_definition(base, cls) for base in type(value).__mro__)


def _step(cls: Any, artifact: Any, wanted: str) -> Check:
    """Return the check of a step that makes an artifact."""
    is_known = _is_class(artifact)

    def check(value: Any) -> Misfit | None:
        if not _is_instance(value, cls) and not _is_pin(value):
            return Misfit(value, wanted, lambda: give_step(_operators(cls, artifact), cls, value))
        made = getattr(value, MAKES)() if is_known else Any
        if not _is_class(made) or any(same_definition(base, artifact) for base in made.__mro__):
            return None
        return Misfit(value, wanted, lambda: f"it makes {made.__name__}")

    return check


def _is_pin(value: object) -> bool:
    """Return whether a value is a pin: maybe an output of any operator. The plan checks its kind."""
    return not isinstance(value, type) and getattr(value, "pin", None) is not None


def _is_class(kind: Any) -> bool:
    return isinstance(kind, type) and kind is not Any


def _operators(cls: Any, artifact: Any) -> Iterator[type]:
    """Yield the class itself if it is an operator, else the operators below it that make exactly that artifact."""
    if cls.op:
        yield cls
        return
    for each in cls.__subclasses__():
        if getattr(each, MAKES)() is artifact and artifact is not Any:
            yield each


def _instance(cls: Any, args: tuple[Any, ...], wanted: str) -> Check:
    """Return the check of the instances of a class and, if the class is generic, of their fields."""
    family = list(_family(cls)) if _stands_for_others(cls) else []
    wanted = " | ".join(each.__name__ for each in family) or wanted
    inside = _inside(cls, args) if args else _anything

    def check(value: Any) -> Misfit | None:
        if _is_instance(value, cls):
            return inside(value)
        return Misfit(value, wanted, lambda: choose_member(cls, value) or make_one(family[0] if family else cls, value))

    return check


def _stands_for_others(cls: type) -> bool:
    """Return whether a class exists only for the dataclasses below it. Python's own classes never do."""
    of_python = cls.__module__.partition(".")[0] in sys.stdlib_module_names
    return not (of_python or _has_fields(cls))


def _family(cls: type) -> Iterator[type]:
    for each in cls.__subclasses__():
        if _has_fields(each):
            yield each
        else:
            yield from _family(each)


def _has_fields(cls: Any) -> bool:
    """Return whether a class is a dataclass. As a bool, so that the type checker does not narrow the type."""
    return dataclasses.is_dataclass(cls)


def _number(cls: type) -> Check:
    kinds = (float, int) if cls is float else int

    def check(value: Any) -> Misfit | None:
        if isinstance(value, kinds) and not isinstance(value, bool):
            return None
        return Misfit(value, cls.__name__, lambda: to_number(cls, value))

    return check


def _union(checks: list[Check], wanted: str) -> Check:
    def check(value: Any) -> Misfit | None:
        misfits: list[Misfit] = []
        for each in checks:
            if (misfit := each(value)) is None:
                return None
            misfits.append(misfit)
        inside = next((misfit for misfit in misfits if misfit.place), None)
        return inside or Misfit(value, wanted, lambda: next(filter(None, (each.remedy() for each in misfits)), ""))

    return check


def _literal(allowed: tuple[Any, ...]) -> Check:
    def check(value: Any) -> Misfit | None:
        if any(type(each) is type(value) and each == value for each in allowed):
            return None
        return Misfit(value, f"one of {', '.join(map(repr, allowed))}")

    return check


def _tuple(args: tuple[Any, ...], wanted: str) -> Check:
    if len(args) == 2 and args[1] is Ellipsis:
        return _items(tuple, args[:1], wanted)
    parts = [_check_for(arg) for arg in args]

    def check(value: Any) -> Misfit | None:
        if not isinstance(value, tuple):
            return Misfit(cast(object, value), wanted, lambda: make_tuple(cast(object, value), None))
        items = cast(tuple[Any, ...], value)
        if parts and len(items) != len(parts):
            return Misfit(items, f"{wanted}: {len(parts)} values, not {len(items)}")
        for number, (item, part) in enumerate(zip(items, parts, strict=False)):
            if (misfit := part(item)) is not None:
                return misfit.within(f"[{number}]")
        return None

    return check


def _items(cls: type, args: tuple[Any, ...], wanted: str) -> Check:
    """Return the check of a container with any number of items of one type."""
    item = _check_for(args[0]) if args else _anything

    def check(value: Any) -> Misfit | None:
        if not isinstance(value, cls):
            return Misfit(value, wanted, lambda: "" if cls is list else make_tuple(value, item))
        if isinstance(value, (tuple, list, frozenset, set)):
            for number, each in enumerate(cast(Collection[Any], value)):
                if (misfit := item(each)) is not None:
                    return misfit.within("{…}" if isinstance(value, AbstractSet) else f"[{number}]")
        return None

    return check


def _mapping(key_type: Any, value_type: Any, wanted: str) -> Check:
    keys, values = _check_for(key_type), _check_for(value_type)

    def check(value: Any) -> Misfit | None:
        if not isinstance(value, Mapping):
            return Misfit(value, wanted)
        for name, each in cast(Mapping[Any, Any], value).items():
            if (misfit := keys(name)) is not None:
                return misfit.within(f" key {name_of(name)}")
            if (misfit := values(each)) is not None:
                return misfit.within(f"[{name_of(name)}]")
        return None

    return check


def _inside(root: type, args: tuple[Any, ...]) -> Check:
    """Return the check of the fields of a generic class, or of the class below it that a value has."""
    if _has_fields(root):
        return _fields(root, dict(zip(_parameters(root), args, strict=False)))

    def check(value: Any) -> Misfit | None:
        cls = type(cast(object, value))
        variable = argument_of(cls, root)
        is_open = isinstance(variable, TypeVar) and _has_fields(cls)
        return _fields(cls, {variable: args[0]})(value) if is_open else None

    return check


def _fields(cls: Any, bound: Mapping[Any, Any]) -> Check:
    """Return the check of the generic fields of a class. bound: the types of its type variables."""
    hints = {spec.name: hint_of(cls, spec.name) for spec in dataclasses.fields(cls)}
    bound_to = {name: _substituted(hint, bound) for name, hint in hints.items()}
    checks = [(name, _check_for(hint)) for name, hint in bound_to.items() if hint is not hints[name]]

    def check(value: Any) -> Misfit | None:
        for name, each in checks:
            if (misfit := each(getattr(value, name))) is not None:
                return misfit.within(f".{name}")
        return None

    return check


def _parameters(hint: Any) -> tuple[Any, ...]:
    return cast(tuple[Any, ...], getattr(hint, "__parameters__", ()))


def _substituted(hint: Any, bound: Mapping[Any, Any]) -> Any:
    """Return the type with every type variable replaced by its type, or by Any if its type is unknown."""
    if isinstance(hint, TypeVar):
        return bound.get(hint, Any)
    parameters = () if isinstance(hint, type) else _parameters(hint)
    return cast(Any, hint)[tuple(bound.get(each, Any) for each in parameters)] if parameters else hint


def write_type(hint: Any) -> str:
    """Return the text of a type, as a class writes it."""
    if hint is Ellipsis:
        return "…"
    if hint is None or hint is NoneType:
        return "None"
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Union or origin is UnionType:
        return " | ".join(write_type(arg) for arg in args)
    if origin is typing.Annotated:
        return write_type(args[0])
    name = str(getattr(origin or hint, "__name__", hint))
    return f"{name}[{', '.join(write_type(arg) for arg in args)}]" if args else name
