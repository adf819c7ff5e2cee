"""The screen of scan and snap."""
