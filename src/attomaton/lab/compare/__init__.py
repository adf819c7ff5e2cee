"""The screen that lays two models or runs side by side."""
