"""Observe the project's code in this process: files it opens, folders it lists, code it runs, programs it starts.

Neither the fields nor the source of a step show these. An audit hook (``sys.addaudithook``) hears every file that
Python opens and every folder that it lists. ``sys.monitoring`` reports each function once when it starts.
``observing()`` keeps the events until its end. Reads by code that may keep its result, such as a module that was
imported or a cache, are also kept for later observations. Reads of the engine, of Python and of installed packages on
their own behalf do not count. C, C++ and Rust code that opens files itself cannot be heard, and neither can other
programs. Processes that are forked from this one report their events.
"""

from __future__ import annotations

import atexit
import functools
import inspect
import os
import sys
from collections.abc import Callable, Generator, Iterable, Set
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from marin.fingerprint.observation import arguments
from marin.fingerprint.observation.callers import COMPILED, Reader, is_engines, is_of_pool, who_reads, who_runs
from marin.fingerprint.observation.imports import edited as edited
from marin.fingerprint.observation.imports import import_begins, import_ended, remember_imported
from marin.fingerprint.observation.journal import Journal
from marin.fingerprint.observation.observation import (
    LOOKED_FOR,
    Asked,
    CodePlace,
    Observation,
    Ran,
    Reads,
    Scope,
    Stack,
    is_on_import,
    stamp_of,
)
from marin.fingerprint.origin import Origin, origin_of

# Modules of multiprocessing and joblib whose children report nothing.
_STARTS_ANEW = ("popen_spawn_posix.py", "popen_forkserver.py", "popen_loky_posix.py")
_OFTEN = frozenset({"open", "os.listdir", "os.scandir", "pickle.find_class"})
_WRITES = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_current: Observation | None = None
_answered = 0  # depth of ``answering``
_fired: dict[CodePlace, None] = {}  # functions that started since the last restart of the events
_earlier: dict[Stack, Reads] = {}  # the reads so far, by their callers
_asked: dict[tuple[int, str], Asked] = {}  # modules, until it is known whether they could be imported
_tool = -1
_journal: Journal | None = None  # of processes that were forked from this one
_forked_off = False  # whether this process is a forked one


def install() -> None:
    """Start listening, once in each process, before modules of the project are imported."""
    global _tool
    if _tool < 0:
        handlers = _HANDLERS

        def hear(event: str, values: tuple[Any, ...]) -> None:
            if event in handlers and not (event in _OFTEN and is_engines(inspect.currentframe())):
                handlers[event](*values)
                if _forked_off:
                    _tell()

        sys.addaudithook(hear)  # which nobody can remove
        watch = sys.monitoring
        _tool = next(number for number in (4, 3, 2, 5, 1, 0) if watch.get_tool(number) is None)
        watch.use_tool_id(_tool, "marin")
        watch.register_callback(_tool, watch.events.PY_START, _started)
        watch.register_callback(_tool, watch.events.PY_RETURN, import_ended)
        _listen_to_calls(watch.events.PY_START)
        os.register_at_fork(after_in_child=_begin_telling)
        atexit.register(_stop_listening)  # from then on Python takes its modules apart
        remember_imported()


def _stop_listening() -> None:
    _HANDLERS.clear()
    sys.monitoring.set_events(_tool, 0)
    _listen_to_calls(0)


def _listen_to_calls(events: int) -> None:
    """Set the events of Python's functions whose every call is reported."""
    for code in (arguments.IMPORT_MODULE, *arguments.LOOKS):
        sys.monitoring.set_local_events(_tool, code, events)


@contextmanager
def observing(
    scope: Scope,
    covered: Callable[[Set[CodePlace]], bool] = lambda _: False,
    keeps: Callable[[Stack, frozenset[str]], bool] = lambda _stack, _code: True,
) -> Generator[Observation]:
    """Observe the reads and the code of all threads until the end of the block.

    There is one observation at a time: a nested call returns the outer one. covered: returns whether the observation
    may miss these functions if they ran before, too. keeps: returns whether one of these functions, called by the code
    of the scope, may keep data that it read.
    """
    global _current, _journal
    if _current is not None:
        yield _current
        return
    install()
    watch = sys.monitoring
    if not watch.get_events(_tool):
        watch.set_events(_tool, watch.events.PY_START)
    elif not covered(_fired.keys()):
        _fired.clear()
        watch.restart_events()
    _settle()
    before = dict(_earlier)
    made = _current = Observation(scope=scope, earlier=before)
    try:
        yield made
    finally:
        _take_in(made)
        _current = None
        if _journal is not None and not _forked_off:
            _journal.close()
            _journal = None
        for stack in _earlier.keys() - before.keys():
            if not is_on_import(stack) and not keeps(stack, scope.code):
                del _earlier[stack]


def current() -> Observation | None:
    """Bring the observation up to date, for outputs that are committed before its end."""
    if _current is not None:
        _take_in(_current)
    return _current


def _take_in(seen: Observation) -> None:
    if _journal is not None:
        _journal.take(seen)
    _settle()
    seen.code.update(_fired)


def _settle(*, at_end: bool = True) -> None:
    """Settle the modules that were asked for. at_end: a module that is not imported by now does not exist."""
    for key, (reads, name, sure, literal) in list(_asked.items()):
        file = getattr(sys.modules.get(name), "__file__", None)
        if isinstance(file, str):
            _ran_whole(file, Ran.IMPORTED if literal else Ran.ASKED, [reads])
        elif not at_end:
            continue
        elif sure and name not in sys.modules:
            reads.look_for(name)
        _asked.pop(key, None)  # another thread may have been quicker


@contextmanager
def answering() -> Generator[None]:
    """Leave out programs that are started in this block: they report their reads, or the reads are known otherwise."""
    global _answered
    _answered += 1
    try:
        yield
    finally:
        _answered -= 1


# The functions below run within the observed code: they must be quick and must raise nothing.


def _started(code: CodeType, _offset: int) -> Any:
    if code is arguments.IMPORT_MODULE or code in arguments.LOOKS:
        return _called(code, inspect.currentframe())
    if code.co_name == "_launch" and code.co_filename.endswith(_STARTS_ANEW):
        if _current is not None:
            _current.programs.add("new processes of multiprocessing")
        return None
    if code.co_flags & inspect.CO_OPTIMIZED and origin_of(code.co_filename) is Origin.PROJECT:  # no module, no class
        reader = who_reads(inspect.currentframe(), "")
        if reader is not None and is_on_import(reader.below):
            return None  # a decorator, say, while a module is imported; it may run again when it counts
        _fired[CodePlace(code.co_filename, code.co_firstlineno, code.co_qualname)] = None
        _tell()
    return sys.monitoring.DISABLE


def _called(code: CodeType, frame: FrameType | None) -> None:
    called = frame.f_back if frame is not None else None
    if code is arguments.IMPORT_MODULE:  # no event tells of a module that is there already
        name, sure, literal = arguments.module_asked(called)
        if name:
            _taken(name, sure=sure, literal=literal)
    elif path := arguments.looked_for(called):
        for reads in _whose(who_reads(called, path), path):
            reads.files.setdefault(path, LOOKED_FOR)
        _tell()


def _taken(name: str, *, sure: bool = False, literal: bool = False) -> None:
    """Note a module by its name: the code may use any part, unless ``literal``. sure: the name is one of a module."""
    for reads in _by(who_reads(inspect.currentframe(), "")):
        before = _asked.get(key := (id(reads), name))
        _asked[key] = Asked(reads, name, sure, literal and (before is None or before.literal))


def _unpickled(module: str, _name: str) -> None:
    if not is_of_pool(inspect.currentframe()):  # whose functions are heard when they start
        _taken(module)


def _ran_whole(filename: str, how: Ran, where: Iterable[Reads]) -> None:
    if origin_of(filename) is Origin.PROJECT and filename.endswith(".py"):
        for reads in where:
            reads.modules[filename] = max(how, reads.modules.get(filename, how))


def _opened(path: Any, _mode: Any = None, flags: int = 0) -> None:
    if flags & _WRITES:
        _made(path)
        return
    if flags & os.O_RDWR and _current is not None:  # "r+", as numpy.memmap opens an existing file
        _current.updated.add(arguments.absolute(path))
    if (text := arguments.text_of(path)) and (reader := who_reads(inspect.currentframe(), text)) is not None:
        name = arguments.absolute(path)
        if _current is not None and _current.is_own(name):
            name = os.path.realpath(name)  # of a link that was made meanwhile
        for reads in _whose(reader, name):
            if reads.lacks(name):
                reads.files[name] = stamp_of(name)


def _listed(path: Any = None) -> None:
    reader = who_reads(inspect.currentframe(), "", listing=True)
    name = arguments.absolute("." if path is None else path) if reader is not None else ""
    for reads in _whose(reader, name) if name else ():
        reads.folders[name] = None


def _globbed(pattern: Any, _recursive: Any = None, root: Any = None, _fd: Any = None) -> None:
    name = os.path.join(arguments.absolute("." if root is None else root), arguments.text_of(pattern))
    if name:
        for reads in _whose(who_reads(inspect.currentframe(), name), name):
            reads.folders[name] = None


def _connected(path: Any) -> None:
    _opened(arguments.database(path))


def _path_globbed(between: str, path: Any, pattern: Any) -> None:
    _globbed(os.path.join(arguments.text_of(path), between, arguments.text_of(pattern)))


def _library(name: Any) -> None:
    if os.sep in arguments.text_of(name):
        _opened(name)


def _imported(_module: Any, filename: Any = None, *_: Any) -> None:
    """Note the file of a compiled module, which has no code object."""
    if _current is not None and isinstance(filename, str) and not filename.endswith(COMPILED):
        name = arguments.absolute(filename)
        if name and _current.scope.has(name, direct=False):
            _current.files.setdefault(name, stamp_of(name))


def _executed(code: Any) -> None:
    if not isinstance(code, CodeType) or code.co_name != "<module>":
        return
    file, origin = code.co_filename, origin_of(code.co_filename)
    if origin is Origin.PROJECT:
        import_begins(code, _tool)
        reader, program = who_runs(inspect.currentframe(), file)
        if reader is None:
            _ran_whole(file, Ran.IMPORTED, [_current] if _current is not None else [])
        else:  # run by its path: its caller may use all of the file
            _ran_whole(file, Ran.PROGRAM if program else Ran.ASKED, _whose(reader, file))
    elif origin is Origin.GENERATED:
        for name in code.co_names:
            _taken(name)  # text that is run as code may import it


def _made(path: Any, *_: Any) -> None:
    if _current is not None and (name := arguments.absolute(path)):
        _current.own.add(name)


def _made_folder(path: Any, *_: Any) -> None:
    """Note a new folder. With ``exist_ok``, a folder that exists already is not new."""
    if _current is not None and (name := arguments.absolute(path)) and not os.path.lexists(name):
        _current.own.add(name)


def _moved(source: Any, target: Any, *_: Any) -> None:
    _made(source)
    _made(target)


def _linked(source: Any, target: Any, *_: Any) -> None:
    _opened(source)  # its bytes have another name from now on
    _made(target)


def _symlinked(_source: Any, target: Any, *_: Any) -> None:
    _made(target)


def _popen(program: Any, command: Any, folder: Any = None, _environment: Any = None) -> None:
    if _current is None or _answered or who_reads(inspect.currentframe(), "") is None:
        return
    words = arguments.words_of(command)
    if not words:
        return
    _current.programs.add(os.path.basename(words[0] if program is None or words[0] else os.fsdecode(program)))
    for file, is_module in arguments.files_named(words, folder):
        if is_module:
            _ran_whole(file, Ran.PROGRAM, [_current])
        elif _current.scope.has(file, direct=True) and not _current.is_own(file) and os.path.isfile(file):
            if file.endswith(".py"):
                _ran_whole(file, Ran.PROGRAM, [_current])
            else:
                _current.files.setdefault(file, stamp_of(file))


def _spawned(program: Any, command: Any = (), *_: Any) -> None:
    _popen(program, command)


def _fork() -> None:
    """Prepare a journal, by which a forked child reports its reads."""
    global _journal
    if _current is not None and _journal is None and who_reads(inspect.currentframe(), "") is not None:
        _journal = Journal()


def _begin_telling() -> None:
    """Begin reporting, in the child."""
    global _forked_off, _current
    _forked_off = _current is not None and _journal is not None
    if _current is not None and _journal is not None:
        _journal.begin(_current, _fired)
    else:
        _current = None


def _tell() -> None:
    if _forked_off and _current is not None and _journal is not None:
        _settle(at_end=False)
        _journal.tell(_current, _fired)


_HANDLERS: dict[str, Callable[..., None]] = {
    "open": _opened,
    "os.listdir": _listed,
    "os.scandir": _listed,
    "glob.glob/2": _globbed,
    "pathlib.Path.glob": functools.partial(_path_globbed, ""),
    "pathlib.Path.rglob": functools.partial(_path_globbed, "**"),
    "ctypes.dlopen": _library,
    "sqlite3.connect": _connected,
    "import": _imported,
    "pickle.find_class": _unpickled,
    "exec": _executed,
    "os.mkdir": _made_folder,
    "os.remove": _made,
    "os.rmdir": _made,
    "os.rename": _moved,
    "os.link": _linked,
    "os.symlink": _symlinked,
    "subprocess.Popen": _popen,
    "os.posix_spawn": _spawned,
    "os.exec": _spawned,
    "os.system": functools.partial(_popen, None),
    "os.fork": _fork,
    "os.forkpty": _fork,
}


def _whose(reader: Reader | None, name: str) -> list[Reads]:
    """Return the places that note a read of this file or folder."""
    if reader is None:
        return []
    scope = _current.scope if _current is not None else Scope()
    counts = scope.has(name, direct=reader.direct) and not (_current is not None and _current.is_own(name))
    return _by(reader) if counts else []


def _by(reader: Reader | None) -> list[Reads]:
    """Return the places that note the reads of a caller: the current observation, and one for later ones."""
    if reader is None:
        return []
    later = [_earlier.setdefault(reader.below, Reads())] if reader.below else []
    return later if _current is None else [_current, *later]
