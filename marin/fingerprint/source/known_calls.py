"""What analysis must know by name: calls that find code, text or files in ways that names alone do not tell.

Each is followed as far as possible. What remains is seen while it runs (see fingerprint.observation.listening), all but
a constant found by a computed name: such code is noted, unless its author says with ``@reaches`` what it can be.
"""

from __future__ import annotations

# Text that is run as code: followed if it is a constant.
RUNS_TEXT = {"exec": "executes text", "eval": "evaluates text", "compile": "compiles text"}

# A module or function by its name: followed if it is a constant.
IMPORTERS = frozenset({"importlib.import_module", "__import__", "runpy.run_module"})
LOCATORS = frozenset(
    ("pydoc.locate", "pkgutil.resolve_name", *(f"hydra.utils.get_{what}" for what in ("class", "method", "object")))
)
# Of these, what nobody hears of when the module is there already. Other computed names are observed.
UNHEARD = (LOCATORS | {"__import__"}) - {"pkgutil.resolve_name"}

# What shows a function's or class's docstring, annotations or very source to the code that calls it.
READS_ANNOTATIONS = frozenset(
    """
    typing.get_type_hints typing_extensions.get_type_hints inspect.signature inspect.Signature.from_callable
    inspect.getfullargspec inspect.get_annotations inspect.getargspec
    """.split()  # noqa: SIM905
)
READS_DOCS = frozenset({"inspect.getdoc", "pydoc.getdoc", "pydoc.render_doc", "doctest.testmod"})
READS_SOURCE = frozenset(
    {"inspect.getsource", "inspect.getsourcelines", "inspect.findsource", "inspect.getcomments", "linecache.getlines"}
)

# These learn nothing about a class that they are given, beyond what its text says.
BLIND = frozenset(
    """
    isinstance issubclass type len list tuple set frozenset dict print repr str map filter sorted sum min max zip
    enumerate any all next iter super getattr hasattr setattr id hash callable property staticmethod classmethod
    """.split()  # noqa: SIM905
)
