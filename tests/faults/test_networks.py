"""Damaged folders of trained transformers, in short; `python -m faults networks` does the same with 100,000."""

from faults.inputs import run


def test_damaged_models_end_in_errors_of_ours_or_in_answers():
    found = run(300, 0, 1, "faults.networks")
    assert found["findings"] == []
    accepted = sum(one["accepted"] for one in found["counts"].values())
    assert 15 < accepted < 150
