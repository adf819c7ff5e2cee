"""The layer itself, trained."""
