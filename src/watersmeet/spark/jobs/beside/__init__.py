"""Queries beside a shared dataflow: where each begins, and how it runs."""
