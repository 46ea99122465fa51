"""Runs a plan across sites: the choice of the plan, one site's part, all sites at once, and the bill."""
