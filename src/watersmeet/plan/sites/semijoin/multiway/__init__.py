"""Semijoin plans as they run: steps with their halves, the levels of a tree, one lane of it all at a site."""
