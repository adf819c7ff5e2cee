"""The standard transformer on text: embeddings, W_Q, W_K, W_V, layer norms; trained, recorded, read back."""
