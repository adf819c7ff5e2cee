"""The two matrices, simulated."""
