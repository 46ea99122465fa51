"""Made-up streams as a source of Spark's: the same options give the same tuples."""

FORMAT = "watersmeet-generator"

__all__ = ["FORMAT"]
