"""From rows to buckets: packing, the messages of the shuffle, hot keys, and unpacking of answers."""
