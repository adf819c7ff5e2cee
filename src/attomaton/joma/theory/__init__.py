"""What the paper predicts: attention from the hidden layer's weights, growth of their components."""
