"""Messages of the command line as a page says them: an option there is a field here."""

import re

KEPT = ("allow-run", "new-key", "port", "host", "workspace")  # of the command that starts the lab
_VALUE = r"(?:'[^']*'|(?!(?:says?|must|names|has|is|and|or|reads|are|ask|to|for)\b)[^\s,.;:)]+(?:[.:][^\s,.;:)]+)*)"
_OPTION = re.compile(rf"(?:\b([Ss]ay) )?--([a-z][a-z-]*)(?: ({_VALUE}))?")


def on_a_page(message: str) -> str:
    """A message without options of a command line.

    >>> on_a_page("log.csv: an event log is cut into contexts of N tokens; say --context N.")
    'log.csv: an event log is cut into contexts of N tokens; set “context”.'
    >>> on_a_page("Probably: --sequence user --order 'when it was'"), on_a_page("name another --order.")
    ('Probably: “sequence” user “order” when it was', 'name another “order”.')
    >>> on_a_page("this lab is read only; start it with --allow-run.")
    'this lab is read only; start it with --allow-run.'
    """
    return _OPTION.sub(_field, message)


def _field(found: re.Match[str]) -> str:
    say, name, value = found[1], found[2], (found[3] or "").strip("'")
    if name in KEPT:
        return found[0]
    field = f"“{name.replace('-', ' ')}”"
    if value in ("N", "NAME", "COLUMN", "FILE"):
        value = ""
    if say:
        verb = "Set" if say == "Say" else "set"
        return f"{verb} {field} to {value}" if value else f"{verb} {field}"
    return f"{field} {value}" if value else field
