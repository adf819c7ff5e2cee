"""The program `attomaton`, also as `python -m attomaton`: signals first, since the rest takes a moment to load."""


def main() -> None:
    """Run the command line, ready to be interrupted at any moment."""
    import gc
    import signal
    import sys
    import warnings

    signals = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # until there is somebody to answer them
    from attomaton.base import interrupts

    interrupts.watch()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
    # Of numbers that overflow on the way: what came of them is in the answer. Who looks for a fault sees them.
    if "--debug" not in sys.argv and not sys.warnoptions:
        warnings.simplefilter("ignore", RuntimeWarning)
    try:
        from attomaton.cli.main import main as run

        run()
    finally:
        gc.freeze()  # all ends with the process: to search it for cycles first takes longer than many commands
        interrupts.too_late()


if __name__ == "__main__":
    main()
