"""The screen of sweeps."""
