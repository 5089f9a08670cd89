"""Every request that kipctl has a class for."""

import importlib
from pkgutil import iter_modules
from typing import Any

import kipctl.protocol
from kipctl.protocol.message import Request

_MODULES = sorted(module.name for module in iter_modules(kipctl.protocol.__path__))

ALL_REQUESTS: list[type[Request[Any]]] = [
    cls
    for module in map(importlib.import_module, (f"kipctl.protocol.{name}" for name in _MODULES))
    for cls in vars(module).values()
    if isinstance(cls, type) and issubclass(cls, Request) and cls.__module__ == module.__name__
    if cls is not Request
]
