"""Reads a backlog evenly: how much each stream may put into the next micro-batch, by how far it has come."""
