"""Files and folders: written plainly, read with suspicion, whole or absent."""
