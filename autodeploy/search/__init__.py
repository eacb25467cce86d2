"""Search: every strategy screened, the best refined, a ranking with reasons.

    from autodeploy.search import SearchRequest, run_search
    result = run_search(SearchRequest(model=..., hardware=..., workload=..., devices=(512,), backend="megatron"))

``search`` takes its parts (the evaluation, the space, the simulator) as arguments; ``run_search`` fills them in.
"""

from autodeploy.search.request import METHODS, OBJECTIVES, SearchRequest
from autodeploy.search.run import SearchResult, search
from autodeploy.search.standard import run_search

__all__ = ["METHODS", "OBJECTIVES", "SearchRequest", "SearchResult", "run_search", "search"]
