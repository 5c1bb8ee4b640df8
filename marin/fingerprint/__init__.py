"""Which code would build a step's output: found by reading source, never by importing it.

The fingerprint covers the step's class, the classes of the values in its fields, the artifact
classes that it is typed with, and everything project-local that these reach: see ``closure`` for
what is followed, ``normal`` for what of it counts, ``boundary`` for where following stops.
What analysis cannot see is listed in ``opaque`` and never missed silently.
"""

from marin.fingerprint.patched import ModuleStates
from marin.fingerprint.result import HARMLESS, Change, CodeFingerprint, compare, source_diff
from marin.fingerprint.steps import Fingerprinter, code_fingerprint, executed, module_states, units_by_name

__all__ = [
    "HARMLESS",
    "Change",
    "CodeFingerprint",
    "Fingerprinter",
    "ModuleStates",
    "code_fingerprint",
    "compare",
    "executed",
    "module_states",
    "source_diff",
    "units_by_name",
]
