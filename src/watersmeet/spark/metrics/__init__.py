"""Metrics that ride on answers, and the progress of a query made of them."""
