"""The screen of data."""
