"""A study: trials over real axes, kept in a storage, resumed and shared. The one package that imports Optuna.

``landscape.py``: what is tried (named values, decoded into strategies); ``problem.py``: which question a study answers;
``storage.py``: where it is kept; ``leases.py``: who is working on what; ``loop.py``: ask, price, tell.
"""
