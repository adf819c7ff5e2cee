"""Files of other languages that lie beside modules: styles, scripts, texts for people."""

from pathlib import Path


def beside(module: str, name: str) -> str:
    """The text of a file beside a module, which says where it is by its `__file__`."""
    return (Path(module).parent / name).read_text(encoding="utf-8")
