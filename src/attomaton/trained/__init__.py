"""Transformers that were trained elsewhere: read from a folder with suspicion, run as they were, looked into."""
