"""Why a strategy costs what it costs: what binds, what one step along each axis would change, two strategies compared."""

from autodeploy.callable_package import make_callable
from autodeploy.explain.compare import compare_document
from autodeploy.explain.explain import explain_document

__all__ = ["compare_document", "explain_document"]

make_callable(__name__)
