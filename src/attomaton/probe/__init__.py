"""What a trained transformer learned of its corpus: its orders against the exact graph, its heads, its first layer."""
