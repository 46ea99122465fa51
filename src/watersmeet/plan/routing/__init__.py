"""How tuples come to where they meet: by shares, as a pipeline, by rewriting, or by Spark's own joins.

Nothing is exported here: a worker that decides which values are hot (`hot_keys`) must not load the planner.
"""
