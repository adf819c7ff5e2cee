"""The screen of everything that can be opened: a table, names and tags, curves of several runs."""
