"""One more convex stage on top of the tuned scores: what the order of a context and longer n-grams say."""
