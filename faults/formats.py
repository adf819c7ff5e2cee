"""Changes that know the format they break: JSON, TOML, safetensors, Parquet, NPY.

What comes out can mostly still be read as that format, and says something else: an entry less, another type, a number
out of range.
"""

import io
import json
import struct
from collections.abc import Callable
from random import Random
from typing import Any

NUMBERS = (
    0,
    1,
    -1,
    127,
    255,
    2**15,
    2**16,
    2**31 - 1,
    2**31,
    -(2**31),
    2**32,
    2**53,
    2**63 - 1,
    2**63,
)
DEEP = 100_000  # levels of a value that is nothing but nesting
WORDS = ("", "\ufeff", "\ud800", "\0", "NaN", "inf", "-inf", "1e999", "0", "None", "a" * 5000, "😀", "\u202e",
         "\x1b[2J", "../../etc", "<eos>", "=", "\t", "\r", "\u2028")  # fmt: skip


def one_bit(rng: Random, content: bytes) -> bytes:
    """One bit flipped: what is left to do where a file is broken already."""
    out = bytearray(content)
    if out:
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


# JSON


def json_value(rng: Random, old: Any) -> Any:
    """Something else in the place of a value."""
    return rng.choice(
        (
            None, True, False, [], {}, [[]], "", old, [old], {"a": old}, [old, old], -1, 0, 1, 0.5, -0.0, 10**400,
            rng.choice(NUMBERS), rng.choice(WORDS), float("nan"), float("inf"), float("-inf"), 1e308, 5e-324,
            str(old), [rng.choice(NUMBERS)] * 3,
        )
    )  # fmt: skip


def _json(rng: Random, content: bytes) -> bytes:
    """One value of a JSON text changed, dropped, doubled or buried."""
    try:
        tree = json.loads(content)
    except ValueError:
        return one_bit(rng, content)
    if rng.random() < 0.02:
        return rng.choice(
            (
                b"[" * DEEP + b"]" * DEEP,
                b'{"a":' * DEEP + b"1" + b"}" * DEEP,
                b"[" * 200 + b"]" * 200,
            )
        )
    holder: list[Any] = [tree]
    places = list(_places(holder))
    parent, key = rng.choice(places)
    change = rng.randrange(8)
    if change == 0 and parent is not holder:
        del parent[key]
    elif change == 1 and isinstance(parent, dict):
        parent[rng.choice((*WORDS, "new"))] = parent.pop(key)
    elif change == 1 and parent is not holder:
        parent.insert(key, parent[key])
    elif change == 2:
        parent[key] = "@buried@"
    elif change == 3 and len(places) > 1:
        other, at = rng.choice(places[1:])
        parent[key], other[at] = other[at], json_value(rng, None)
    else:
        parent[key] = json_value(rng, parent[key])
    try:
        text = json.dumps(holder[0], ensure_ascii=rng.random() < 0.5)
    except (ValueError, RecursionError):  # a value that now holds itself
        text = "[" * 500 + "]" * 500
    depth = rng.choice((30, 100, 500, 900, 5000))
    text = text.replace('"@buried@"', "[" * depth + "]" * depth)
    return text.encode("utf-8", "surrogatepass")


def _places(holder: list[Any]) -> Any:
    """Every (container, key) of a tree, the first few thousand."""
    todo, found = [holder], 0
    while todo and found < 3000:
        here = todo.pop()
        for key in list(here) if isinstance(here, dict) else range(len(here)):
            found += 1
            yield here, key
            if isinstance(here[key], (dict, list)):
                todo.append(here[key])


def _rows(rng: Random, content: bytes) -> bytes:
    """One line of a JSONL text changed as JSON."""
    lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    lines[at] = _json(rng, lines[at]) if lines[at].strip() else b"null"
    return b"\n".join(lines)


# TOML: what our own writers leave is one setting a line


def _toml(rng: Random, content: bytes) -> bytes:
    lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    name, _, value = lines[at].partition(b"=")
    new = rng.choice(
        (b"nan", b"inf", b"-1", b"9223372036854775808", b"9" * 5000, b"[]", b"[[]]", b"{}", b'""', b"true",
         b'"\\ud800"', b"1979-05-27", b"[" * 2000, b"1e999", b'"x"', b"0.5", value, value * 2)
    )  # fmt: skip
    change = rng.randrange(4)
    if change == 0:
        del lines[at]
    elif change == 1:
        lines.insert(
            at,
            rng.choice((lines[at], b"[[class]]", b"[class]", b"a.b.c = 1", b"a." * 200 + b"b = 1")),
        )
    else:
        lines[at] = name + b"= " + new
    return b"\n".join(lines)


# Safetensors: 8 bytes of length, a JSON header, the numbers


def _safetensors(rng: Random, content: bytes) -> bytes:
    size = int.from_bytes(content[:8], "little")
    try:
        header = json.loads(content[8 : 8 + size])
    except ValueError:
        return one_bit(rng, content)
    body = bytearray(content[8 + size :])
    name = rng.choice(list(header))
    change = rng.randrange(7)
    if change == 0:
        header[name] = json_value(rng, header[name])
    elif change == 1:
        header[rng.choice(("new", *WORDS))] = header.pop(name)
    elif change == 2 and isinstance(header[name], dict) and header[name]:
        key = rng.choice(list(header[name]))
        header[name][key] = json_value(rng, header[name][key])
    elif change == 3 and "dtype" in header[name]:
        header[name]["dtype"] = rng.choice(
            (
                "F64",
                "F32",
                "F16",
                "BF16",
                "I64",
                "I32",
                "I16",
                "I8",
                "U8",
                "U64",
                "BOOL",
                "F8_E4M3",
                "C64",
                "F4",
            )
        )
        header[name]["dtype"] = rng.choice(("I64", "F64", "U64", header[name]["dtype"]))
    elif change == 4 and header[name].get("shape"):
        shape = header[name]["shape"]
        shape[rng.randrange(len(shape))] = rng.choice((*NUMBERS, 2, 3))
        if rng.random() < 0.3:
            header[name]["shape"] = rng.choice(([1, *shape], shape[::-1], [0, 2**40], []))
    elif change == 5 and len(body) >= 8:
        kind = rng.choice(("<d", "<q"))
        value = (
            rng.choice((float("nan"), float("inf"), -1.0, 1e308))
            if kind == "<d"
            else rng.choice((-1, 2**40, 7, 0))
        )
        at = 8 * rng.randrange(len(body) // 8)
        body[at : at + 8] = struct.pack(kind, value)
    else:
        return _drop_array(rng, header, bytes(body))
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    length = rng.choice((len(text),) * 9 + (rng.choice(NUMBERS) % 2**63,))
    return length.to_bytes(8, "little") + text + bytes(body)


def _drop_array(rng: Random, header: dict[str, Any], body: bytes) -> bytes:
    """A whole file with one array missing, or with fewer entries: what no format check can find."""
    from safetensors.numpy import load, save

    text = json.dumps(header).encode()
    try:
        arrays = load(len(text).to_bytes(8, "little") + text + body)
    except Exception:  # was broken before
        return text
    name = rng.choice(list(arrays))
    value = arrays.pop(name)
    change = rng.randrange(5)
    if change == 1 and value.ndim:
        arrays[name] = value[: len(value) // 2].copy()
    elif change == 2 and value.ndim:
        arrays[name] = value[::-1].copy()
    elif change == 3:
        arrays[name] = value.astype(rng.choice(("<i4", "<f8", "<f4", "<u1", "<i8")))
    elif change == 4:
        arrays[name] = value.reshape(-1, 1) * rng.choice((1, -1))
    return save(arrays)


# Parquet


def _parquet(rng: Random, content: bytes) -> bytes:
    """The same table with a column dropped, renamed, of another type, with holes, or in another order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(content))
    at = rng.randrange(table.num_columns)
    name, column = table.column_names[at], table.column(at).to_pylist()
    change, row = rng.randrange(9), rng.randrange(max(len(column), 1))
    try:
        if change == 0:
            table = table.remove_column(at)
        elif change == 1:
            names = list(table.column_names)
            names[at] = rng.choice((*names, "new", ""))
            table = table.rename_columns(names)
        elif change == 2:
            table = table.set_column(
                at, name, table.column(at).cast(rng.choice((pa.string(), pa.float32(), pa.int8())))
            )
        elif change == 3:
            kinds = ([None], [b"\xff"], [True], [[1]], [{"a": 1}], ["x"], [1.5], [2**40], [])
            new = (rng.choice(kinds) * len(column))[: len(column)]
            table = table.set_column(at, name, pa.array(new))
        elif change == 4:
            table = table.take(pa.array(rng.sample(range(len(column)), len(column)), pa.int64()))
        elif change == 5:
            table = table.slice(0, rng.randrange(len(column) + 1))
        elif change == 6:
            table = pa.concat_tables([table, table.slice(row, 1)])
        elif column:
            old = column[row]
            column[row] = rng.choice(_instead(rng, old))
            table = table.set_column(at, name, pa.array(column, table.schema.field(at).type))
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return one_bit(rng, content)
    out = io.BytesIO()
    try:
        pq.write_table(table, out)
    except pa.ArrowException:
        return one_bit(rng, content)
    return out.getvalue()


def _instead(rng: Random, old: Any) -> tuple[Any, ...]:
    """Other values of the same type, or none."""
    if isinstance(old, list):
        return (None, [], [*old, *old], [None], [-1], [2**31 - 1], old[:-1], old[::-1])
    if isinstance(old, str):
        return (None, "", rng.choice(WORDS[3:]), old * 2)
    return (None, -1, 0, 1, 2, 3, 1000, 2**31 - 1, float("nan"), float("inf"), 1e308, -1e308)


# NPY: a magic number, a version, the length of a header that is a Python literal, the numbers


def _npy(rng: Random, content: bytes) -> bytes:
    size = int.from_bytes(content[8:10], "little")
    header, body = content[10 : 10 + size].rstrip(), content[10 + size :]
    old, new = rng.choice(
        (
            (b"<f8", rng.choice((b"|O", b"<f4", b"<c16", b"<M8[s]", b"|S8", b"|V8", b">f8", b"<i8", b"<f9", b"f",
                                 b"<U2", b"[('a','<f8')]"))),
            (b"(", rng.choice((b"(0, ", b"(-1, ", b"(99999999999999999, ", b"(2147483648, ", b"((", b"[", b"(1.5, "))),
            (b"False", rng.choice((b"True", b"None", b"0", b"[]", b"False" * 3))),
            (b"'shape'", rng.choice((b"'shope'", b"shape", b"b'shape'", b"('shape',)", b"["))),
            (b"}", rng.choice((b"", b", 'a': 1}", b"}}", b"}" * 500, b"+" * 3000 + b"1}"))),
            (b"{", rng.choice((b"(" * 3000, b"-" * 3000, b"\\", b"'''", b"{ 1L, ", b"  {"))),
        )
    )  # fmt: skip
    header = header.replace(old, new, 1) + b"\n"
    length = rng.choice((len(header),) * 9 + (0, 65535, len(header) // 2))
    version = rng.choice((b"\x01\x00",) * 9 + (b"\x02\x00", b"\x03\x00", b"\x09\x00"))
    start = rng.choice((content[:6],) * 12 + (b"PK\x03\x04\x00\x00", b"\x80\x04\x95\x00\x00\x00"))
    return start + version + length.to_bytes(2, "little") + header + body


STRUCTURED: dict[str, Callable[[Random, bytes], bytes]] = {
    ".json": _json,
    ".jsonl": _rows,
    ".toml": _toml,
    ".safetensors": _safetensors,
    ".parquet": _parquet,
    ".npy": _npy,
}
