"""A worked story on the embedded example: six steps, each a live figure and a door to its screen."""
