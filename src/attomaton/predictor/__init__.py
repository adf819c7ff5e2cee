"""The layer as a predictor for unseen text: scores with a prior and a price, chosen on validation data."""
