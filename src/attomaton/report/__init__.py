"""Plain data in, pictures and pages out; no mathematics."""
