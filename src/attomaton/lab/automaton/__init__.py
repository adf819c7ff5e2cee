"""The screen that answers typed contexts."""
