"""Data in: text, event logs, JSONL and arrays become token ids, then bags of tokens."""
