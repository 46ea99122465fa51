"""The answers of a query as the stream of others: a durable log, its writer and its readers."""
