"""RJoin's experiments (EDBT 2008, section 8): Figures 2 to 9."""
