"""The screen of training runs."""
