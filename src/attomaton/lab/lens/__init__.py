"""The screen that tells what was learned."""
