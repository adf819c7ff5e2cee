"""Records as figures."""
