"""Print the benchmark table: `python -m benchmarks [--json] [--only TOPIC …]`."""

import argparse
import json
from dataclasses import asdict
from importlib import import_module

from benchmarks.table import Row, lines

TOPICS = (
    "training",
    "svm",
    "luce",
    "growth",
    "text",
    "scaling",
    "dynamics",
    "lab",
    "answers",
    "start",
    "dimensions",
)
NOTE = """
Each ratio compares two programs on the same data in this one run: above 1, ours is that much cheaper.
Rows on growth give the factor by which our own cost grows when the data double, rows on start the cost of
a command over that of an interpreter that does nothing. Other machines give other ratios.
""".strip()


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the rows as JSON, with seconds")
    parser.add_argument("--only", nargs="+", choices=TOPICS, default=TOPICS, help="topics to run")
    arguments = parser.parse_args()
    rows: list[Row] = []
    for topic in arguments.only:
        rows += import_module(f"benchmarks.{topic}").rows()
    if arguments.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        print("\n".join([*lines(rows), "", NOTE]))


main()
