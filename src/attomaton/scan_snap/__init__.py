"""Scan and snap: how attention gets there, for classes of sequences and two learning rates."""
