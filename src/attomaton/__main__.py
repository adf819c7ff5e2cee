"""`python -m attomaton` is the command line."""

from attomaton.cli import main

if __name__ == "__main__":
    main()
