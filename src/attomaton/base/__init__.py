"""What every room may use of the machine: compiled programs."""
