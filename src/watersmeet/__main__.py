"""`python -m watersmeet`: the command line where its script is not on the PATH."""

from watersmeet.cli import main

main()
