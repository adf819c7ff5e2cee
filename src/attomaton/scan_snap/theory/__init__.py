"""The reduced dynamics in closed form."""
