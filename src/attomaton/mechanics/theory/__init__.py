"""What theory computes without training."""
