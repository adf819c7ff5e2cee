"""The screen of priority graphs."""
