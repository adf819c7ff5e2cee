"""The layer as a predictor for unseen text: scores with a prior and a penalty, chosen on validation data."""
