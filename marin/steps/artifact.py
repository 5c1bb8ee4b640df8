"""Artifacts: the typed result of a step, in an immutable directory.

The dataclass fields are small facts (counts, names) that are kept in the record; the bytes are in
``directory``. Downstream steps read both: ``ctx[self.documents].directory``.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, cast, dataclass_transform
from weakref import WeakValueDictionary

from marin.errors import CorruptRecord
from marin.steps.definitions import Namespace, define, must_be_free
from marin.steps.value import check_fields, guard_init
from marin.store.files.directory import Directory

KINDS: WeakValueDictionary[str, type[Artifact]] = WeakValueDictionary()


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(dataclasses.field,))
class Artifact:
    """The base of all artifacts. ``class Tokens(Artifact, kind="tokens")`` makes a frozen dataclass.

    Fields hold JSON data: numbers, strings, bools, None, and dicts and lists with these. Raises BadField for a field
    of another type than its annotation. Values from a record are not checked.
    """

    kind: ClassVar[str] = ""

    def __init_subclass__(cls, *, kind: str, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        define(Namespace.ARTIFACT, kind, cls)
        cls.kind = kind
        dataclasses.dataclass(frozen=True, kw_only=True)(cls)
        must_be_free(cls, Artifact)
        KINDS[kind] = cls
        guard_init(cls, check_fields)

    @property
    def directory(self) -> Directory:
        """Return the directory that holds the bytes. Only artifacts from the store (``ctx[step]``) have one."""
        return cast(Directory, self.__dict__["_directory"])

    def at(self, directory: Directory) -> Artifact:
        """Return the same artifact, tied to its directory."""
        tied = copy.copy(self)
        object.__setattr__(tied, "_directory", directory)
        return tied

    def facts(self) -> dict[str, Any]:
        """Return the fields as JSON data."""
        return dataclasses.asdict(cast(Any, self))


def artifact_from(kind: str, facts: Mapping[str, Any], directory: Directory) -> Artifact:
    """Rebuild an artifact from its record. Raises CorruptRecord if kind or facts do not fit."""
    if kind not in KINDS:
        raise CorruptRecord(
            f"{directory.url}: the record's artifact is of kind {kind!r}, which no loaded module defines; "
            "import the operator that made it"
        )
    try:
        made = KINDS[kind].__new__(KINDS[kind])
        getattr(made.__init__, "__wrapped__")(made, **facts)  # unchecked: code from before the checks wrote some facts
        return made.at(directory)
    except TypeError as error:
        raise CorruptRecord(f"{directory.url}: the record's facts do not make a {kind}: {error}") from error
