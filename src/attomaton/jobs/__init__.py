"""What a command or the lab asks for: long work, done piece by piece, resumable, left behind as a folder."""
