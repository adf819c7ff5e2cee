"""The screen of claims."""
