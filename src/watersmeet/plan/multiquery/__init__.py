"""Plans many queries as one dataflow, so that they share the tuples, joins and state they have in common."""
