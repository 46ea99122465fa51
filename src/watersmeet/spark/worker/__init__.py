"""What a Python worker of Spark keeps and knows: cached buckets, its memory, its task."""
