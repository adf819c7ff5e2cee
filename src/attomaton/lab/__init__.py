"""The lab: a local web view that opens data, models and runs, starts work and shows its records."""
