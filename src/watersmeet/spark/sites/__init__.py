"""One site's part of a plan on Spark: rows to ports and links, joins in levels, links written and read."""
