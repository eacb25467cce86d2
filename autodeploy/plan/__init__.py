"""From priced strategies to a plan for the whole job: which machine and how many cards for a token budget, by when, at what
cost, with what failures. Pure functions over the entries of ``search``.
"""
