"""What is to be done as soon as the job has imported a module: at once where it is there already, else right after it was run.

So the recorder imports nothing itself, and whoever imports a name from such a module gets the one with the hook.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

Then = Callable[[ModuleType], None]


class _Finder(MetaPathFinder):
    """Stands first among the finders, finds nothing itself, and wraps the loaders of the modules that somebody waits for."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[Then]] = {}
        self._busy: set[str] = set()

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname not in self.waiting or fullname in self._busy:
            return None
        self._busy.add(fullname)
        try:
            spec = find_spec(fullname)
        finally:
            self._busy.discard(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, fullname, self)
        return spec


class _Loader(Loader):
    """The module's own loader; afterwards what waits for it is called."""

    def __init__(self, own: Any, name: str, finder: _Finder) -> None:
        self.own, self.name, self.finder = own, name, finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self.own.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.own
        if module.__spec__ is not None:
            module.__spec__.loader = self.own
        self.own.exec_module(module)
        for then in self.finder.waiting.pop(self.name, []):
            tried(then, module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)


_FINDER = _Finder()


def after_import(name: str, then: Then) -> None:
    """Calls `then(module)` once the module has been run. What goes wrong in it is told and kept from the job."""
    module = sys.modules.get(name)
    if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
        tried(then, module)
        return
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    _FINDER.waiting.setdefault(name, []).append(then)


def tried(then: Then, module: ModuleType) -> None:
    """A hook that this version of torch has no place for is left out, and told."""
    try:
        then(module)
    except Exception as error:
        print(f"stepscope: no hook in {module.__name__} ({type(error).__name__}: {error})", file=sys.stderr)
