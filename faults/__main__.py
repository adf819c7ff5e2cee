"""Break things on purpose and count what broke: `python -m faults kills|interrupts|commands|…`."""

import sys
from importlib import import_module

TOPICS = (
    "kills",
    "checkpoints",
    "disks",
    "inputs",
    "interrupts",
    "commands",
    "plantings",
    "encodings",
    "networks",
)


def main(arguments: list[str]) -> int:
    """Run one topic with its own options; 0 where every promise was kept."""
    topic, *options = arguments or [""]
    if topic not in TOPICS:
        print(f"python -m faults {'|'.join(TOPICS)} …; each has --help", file=sys.stderr)
        return 2
    return import_module(f"faults.{topic}").main(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
