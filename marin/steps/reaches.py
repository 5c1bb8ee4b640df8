"""``@reaches``: declare the code that a function can find dynamically, which only running it would show."""

from __future__ import annotations

from collections.abc import Callable


def reaches[T](*code: object) -> Callable[[T], T]:
    """Decorate a function or class that finds code dynamically.

    code: the functions, classes and modules of the project that it can find. They count for every step that uses it.

    ::

        @reaches(plugins)
        def load(name: str) -> Plugin:
            return sys.modules[name].PLUGIN

    ``@reaches()`` promises that it finds nothing of the project, only installed packages. Without the decorator, marin
    sees functions when they run and files when they are read. It misses constants found this way, and notes this.
    """
    del code

    def same(decorated: T) -> T:
        return decorated

    return same
