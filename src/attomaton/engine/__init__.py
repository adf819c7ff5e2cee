"""Where work runs: this process, several processes, or a Ray cluster; the same tasks give the same results."""
