"""What analysis must know by name: calls that find code, text or files in ways that names alone do not tell.

Each is followed as far as possible. What remains is seen while it runs (see fingerprint.observation.listening) or else
refused, because a change could be missed: the author then says with ``@reaches(...)`` what it can be.
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

_PICKLES = """
    pickle.load pickle.loads dill.load dill.loads cloudpickle.load cloudpickle.loads marshal.load marshal.loads
    pickle.Unpickler joblib.load torch.load pandas.read_pickle shelve.open jsonpickle.decode
""".split()  # noqa: SIM905
REFUSED = {
    "importlib.metadata.entry_points": "finds code through entry points",
    "pkg_resources.iter_entry_points": "finds code through entry points",
    "hydra.utils.instantiate": "calls what a configuration names",
    "hydra.utils.call": "calls what a configuration names",
    "types.FunctionType": "builds a function out of raw code",
    "types.CodeType": "builds a function out of raw code",
    "gc.get_objects": "finds objects without naming them",
    "gc.get_referrers": "finds objects without naming them",
    "site.addsitedir": "changes where modules are found",
    **dict.fromkeys(_PICKLES, "unpickles: the classes named in the data are not seen"),
}

# Where modules are found: whoever changes it finds modules that we do not.
SEARCH = frozenset({"sys.path", "sys.meta_path", "sys.path_hooks", "sys.path_importer_cache"})

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
