"""How a query runs, and why so: statistics, costs, the papers' optimizers, routing, the physical plan.

It exports nothing: a worker that needs one module of a sub-package should not load the whole planner.
"""
