"""The folder of a shared dataflow: its queries, requests and replies. Clients need no Spark to use it."""
