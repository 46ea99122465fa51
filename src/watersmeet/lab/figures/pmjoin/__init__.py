"""PMJoin's experiments (DASFAA 2006, sections 1 and 4): Figures 1 and 5 to 11."""
