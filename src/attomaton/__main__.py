"""`python -m attomaton` is the command line."""

from attomaton.cli import main

main()
