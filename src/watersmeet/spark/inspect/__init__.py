"""Looking into the state of a checkpoint, beside its run or after it; nothing is changed."""
