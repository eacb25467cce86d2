"""Search: every strategy screened, the best refined, a ranking with reasons.

    from autodeploy.search import SearchRequest, run_search
    result = run_search(SearchRequest(case=Case(model=..., hardware=..., workload=...), devices=(512,), backend="megatron"))

``search`` takes its parts (the evaluation, the space, the simulator) as a ``Twin``; ``run_search`` fills in the real ones.
"""

from autodeploy.callable_package import make_callable
from autodeploy.search.real_parts import run_search
from autodeploy.search.request import METHODS, OBJECTIVES, SearchRequest
from autodeploy.search.run import SearchResult, search
from autodeploy.search.twin import Twin

__all__ = ["METHODS", "OBJECTIVES", "SearchRequest", "SearchResult", "Twin", "run_search", "search"]

make_callable(__name__)
