"""``autodeploy.search`` and ``autodeploy.explain`` are packages and, for users of the Python API, functions: once such a
package has been imported, Python binds its name over ``autodeploy.__getattr__``, so the package itself answers the call."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class CallablePackage(ModuleType):
    """A package that, called, is the API's function of its name."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        from autodeploy import api

        return getattr(api, self.__name__.rpartition(".")[2])(*arguments, **options)


def make_callable(name: str) -> None:
    sys.modules[name].__class__ = CallablePackage
