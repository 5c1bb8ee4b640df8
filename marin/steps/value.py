"""Values: the objects that a step's field may hold besides numbers, strings and steps. Frozen, checked, encoded.

``since`` and ``execution`` say how a field counts; ``value`` makes a dataclass or an enum a possible field value.
marin.steps.encoding describes how values enter an identity.
"""

from __future__ import annotations

import copy
import dataclasses
import operator
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from typing import Any, cast, dataclass_transform

from marin.errors import BadField, UnencodableValue
from marin.steps.definitions import Namespace, define
from marin.steps.encoding import (
    ATOMS,
    DEEPEST,
    EXECUTION,
    FORMERLY,
    SINCE,
    TAG_ATTRIBUTE,
    TOO_DEEP,
    NoEncodingError,
    cannot_change,
    in_order_of_keys,
)
from marin.steps.encoding import digest as digest
from marin.steps.encoding import encode as encode
from marin.steps.field_types import CheckedField, check_field, fields_of
from marin.steps.field_types import check_fields as check_fields
from marin.steps.misfit import needed_fields, no_such_field

NEEDED = "marin.needed"  # metadata of a field without a default: the text that explains it to people who left it out


class FrozenDict(dict[Any, Any]):
    """A dict that refuses to change, frozen in depth. Each mapping field of a step becomes one on construction.

    Its items are in the order of their encoded keys, so that two dicts with one identity are read alike.
    """

    def __new__(cls, items: Any = (), /) -> FrozenDict:
        try:
            return _frozen_dict(dict(items), 0)
        except NoEncodingError as error:
            raise error.at("FrozenDict") from None

    def __init__(self, items: Any = (), /) -> None:
        """Do nothing: the dict is filled already."""

    def _refuse(self, *_: object, **__: object) -> Any:
        raise TypeError("a mapping inside a step is frozen; build a new step with dataclasses.replace")

    __setitem__ = __delitem__ = clear = pop = popitem = __ior__ = _refuse
    setdefault = update = _refuse  # pyright: ignore[reportAssignmentType]

    def __reduce__(self) -> tuple[Any, ...]:
        return (FrozenDict, (dict(self),))

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


def since(version: int, *, default: Any) -> Any:
    """Declare a field that was added at operator version ``version``. Its default means "as before".

    A field with its default value is not part of the identity, so outputs from before the
    field existed keep their identities.
    """
    return dataclasses.field(default=default, metadata={SINCE: version})


def execution(*, default: Any) -> Any:
    """Declare a field that says where or how fast a step runs. It changes no output and no identity."""
    return dataclasses.field(default=default, metadata={EXECUTION: True})


def formerly(name: str) -> Any:
    """Declare a field that was called ``name`` before. Identities use the old name, so outputs keep theirs."""
    return dataclasses.field(metadata={FORMERLY: name})


@dataclass_transform(
    frozen_default=True, kw_only_default=False, field_specifiers=(dataclasses.field, since, execution, formerly)
)
def value[T](tag: str, *, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
    """Decorate a class: make a frozen dataclass (or Enum) that may be a field of a step.

    ``tag`` names the class in identities, so renaming or moving the class changes nothing.
    An Enum also declares ``_value_: str``; without it pyright takes its members for fields.
    Raises ExperimentError if another class has the tag.
    """

    def decorate(cls: type[T]) -> type[T]:
        define(Namespace.VALUE, tag, cls)
        made = cls if issubclass(cls, Enum) else _frozen(cls, kw_only)
        setattr(made, TAG_ATTRIBUTE, tag)
        return made

    return decorate


def _frozen[T](cls: type[T], kw_only: bool) -> type[T]:
    own: Callable[[Any], None] | None = getattr(cls, "__post_init__", None)

    def __post_init__(self: Any) -> None:
        freeze_fields(self)
        if own is not None:
            own(self)
            freeze_fields(self)  # it may have put something else there

    setattr(cls, "__post_init__", __post_init__)
    made = dataclasses.dataclass(frozen=True, kw_only=kw_only)(cls)
    guard_init(made, lambda _: None)
    return made


def guard_init(cls: type[Any], finish: Callable[[Any], None]) -> None:
    """Make the generated __init__ of a dataclass name unknown and missing fields, with near misses.

    finish: is called with the new instance, after its __post_init__.
    """
    made, known = cls.__init__, {spec.name: spec for spec in dataclasses.fields(cls) if spec.init}
    by_name = all(spec.kw_only for spec in known.values())
    missing = {name: _explained(known[name]) for name in sorted(needed_fields(cls))}

    def __init__(self: Any, *args: Any, **given: Any) -> None:
        if by_name and args:
            example = ", ".join(f"{name}=…" for name in missing or list(known)[:1])
            raise BadField(f"{cls.__name__}: fields are given by name: {cls.__name__}({example})")
        if not given.keys() <= known.keys():
            unknown = next(name for name in given if name not in known)
            raise BadField(no_such_field(cls, unknown, known))
        if by_name and not missing.keys() <= given.keys():
            wanted = (text for name, text in missing.items() if name not in given)
            raise BadField(f"{cls.__name__} needs {', '.join(wanted)}")
        made(self, *args, **given)
        finish(self)

    setattr(__init__, "__wrapped__", made)  # help() then shows its signature: every field, type and default
    setattr(cls, "__init__", __init__)


def _explained(spec: dataclasses.Field[Any]) -> str:
    return f"{spec.name} ({spec.metadata[NEEDED]})" if NEEDED in spec.metadata else spec.name


def freeze_fields(instance: object) -> None:
    """Freeze the fields of a new instance in depth, and check their types.

    Raises BadField for a wrong type and UnencodableValue for a value nested too deeply, naming the field.
    """
    for spec in fields_of(type(instance)):
        given = getattr(instance, spec.name)
        if given is spec.default:
            continue
        if type(given) not in ATOMS:
            given = _freeze(instance, spec, given)
        check_field(instance, spec, given)


def _freeze(instance: object, spec: CheckedField, given: object) -> object:
    place = f"{type(instance).__name__}.{spec.name}"
    try:
        frozen = _frozen_value(given, 0)
    except (NoEncodingError, TypeError) as error:  # too deep; or a key or set item is of a class whose hash can change
        raise UnencodableValue(f"{place}: {error}") from error
    if spec.execution:
        frozen = _copied(frozen)
    if frozen is not given:
        object.__setattr__(instance, spec.name, frozen)
    return frozen


def _frozen_value(given: Any, depth: int) -> Any:
    """Turn mappings into FrozenDicts and sets into frozensets, at any depth. Frozen values stay the same objects.

    Other values that can change have no encoding, so an identity refuses them.
    """
    kind = type(cast(object, given))
    if kind in ATOMS or kind is FrozenDict or cannot_change(kind):
        return given
    if depth > DEEPEST:
        raise NoEncodingError(TOO_DEEP)
    if kind is tuple:
        items = tuple(_frozen_value(item, depth + 1) for item in given)
        return given if all(map(operator.is_, items, given)) else items
    if isinstance(given, Mapping):
        return _frozen_dict(cast(Mapping[Any, Any], given), depth)
    if isinstance(given, (set, frozenset)):
        return frozenset(_frozen_value(item, depth + 1) for item in cast(AbstractSet[Any], given))
    return given


def _frozen_dict(items: Mapping[Any, Any], depth: int) -> FrozenDict:
    pairs = [(_frozen_value(key, depth + 1), _frozen_value(item, depth + 1)) for key, item in items.items()]
    if len(pairs) > 1:
        pairs = in_order_of_keys(pairs)
    made = dict.__new__(FrozenDict)
    dict[Any, Any].__init__(made, pairs)
    return made


def _copied(given: Any) -> Any:
    """Return the value of an execution field as the step's own. The value need not have an encoding."""
    if cannot_change(type(cast(object, given))) or isinstance(given, Enum):
        return given
    try:
        return copy.deepcopy(given)
    except Exception:  # a lock, a file or a generator cannot be copied
        return given
