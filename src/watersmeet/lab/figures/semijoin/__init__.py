"""The semijoin paper's experiments (Tran and Lee, 2010, section 5): Table 3 and Figures 7 to 10."""
