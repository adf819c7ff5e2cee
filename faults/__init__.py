"""What attomaton promises when things go wrong, put to the test: kills, torn checkpoints, full disks, bad input."""
