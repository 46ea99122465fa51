"""The demonstration: what it runs, how it is shown, and how its answers are checked."""
