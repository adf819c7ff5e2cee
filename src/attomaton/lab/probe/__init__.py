"""The screen of probed transformers."""
