"""What a checkpoint remembers of its query, and whether a changed query may go on with it."""
