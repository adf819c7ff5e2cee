"""MLP and attention together (JoMA, arXiv 2310.00535): a hidden layer over attention, and what both keep in common."""
