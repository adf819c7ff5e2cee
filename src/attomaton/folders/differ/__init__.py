"""Two folders of a kind, side by side."""
