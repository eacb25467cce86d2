"""A matrix of searches, cell by cell, resumable: models x hardware x devices x sequence x batch x precision x back end x stack.

    from autodeploy.sweep import read_matrix, run_sweep
    run_sweep(read_matrix("sweep.yaml").cells(), ResultFile("sweep.jsonl"), runner)

``runner`` prices one cell (a command line of ``search``) and is injected, so that an engine can carry it to any process.
"""

from autodeploy.sweep.matrix import Cell, Matrix, Shard, read_matrix
from autodeploy.sweep.results import ResultFile
from autodeploy.sweep.run import Sweep, run_sweep

__all__ = ["Cell", "Matrix", "ResultFile", "Shard", "Sweep", "read_matrix", "run_sweep"]
