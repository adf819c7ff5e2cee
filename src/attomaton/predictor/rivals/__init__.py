"""Other ways to name the next token, fitted on the same data and judged on the same windows."""
