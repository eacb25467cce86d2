"""The search with the real parts: cost models, space of strategies, rules."""

from __future__ import annotations

from typing import Any

from autodeploy.search.request import Progress, SearchRequest
from autodeploy.search.run import SearchResult, search


def run_search(request: SearchRequest, *, progress: Progress | None = None, **more: Any) -> SearchResult:
    raise NotImplementedError
