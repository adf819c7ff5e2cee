"""Mechanics of next-token prediction: priority graphs, the exact limit, training, the automaton."""
