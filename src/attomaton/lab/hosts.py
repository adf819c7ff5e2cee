"""Where the lab listens: a host of this machine, the names it goes by, a port."""

import socket
from collections.abc import Iterable
from ipaddress import ip_address

from attomaton.errors import UsageError, visible

PORT = 8765
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def resolved(host: str) -> list[str]:
    """The addresses a host name stands for, or a `UsageError` that says why there is none."""
    shown = visible(host)
    if not host or "/" in host or "@" in host or any(c.isspace() for c in host):
        raise UsageError(
            f"--host {shown!r}: give a name or an address alone, as in --host 127.0.0.1."
        )
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        cure = " The port goes to --port." if ":" in host else ""
        raise UsageError(f"--host {shown}: there is no such host name or address.{cure}") from error
    return list(dict.fromkeys(str(one[4][0]) for one in found))


def is_alone(addresses: Iterable[str]) -> bool:
    """Whether nobody but this machine can reach these addresses."""
    return all(ip_address(one.split("%")[0]).is_loopback for one in addresses)


def is_any(addresses: Iterable[str]) -> bool:
    """Whether these addresses stand for all addresses of the machine."""
    return any(ip_address(one.split("%")[0]).is_unspecified for one in addresses)


def names(host: str, addresses: list[str]) -> set[str]:
    """The names under which pages may ask for the lab, without port.

    The loopback names, the host as it was given and its addresses; where others can reach the lab, also what this
    machine calls itself. All other names are refused: one of them might have been made to point here.
    """
    found = {*LOOPBACK, written(host), *map(written, addresses)}
    if not is_alone(addresses):
        found |= {socket.gethostname(), socket.getfqdn()}
    return {one.lower() for one in found if one}


def written(host: str) -> str:
    """A host as it stands in an address: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def base(host: str, port: int) -> str:
    """The beginning of the lab's addresses, as this machine can open it."""
    nearby = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://{written(nearby)}:{port}"


def usable(host: str) -> list[str]:
    """The addresses of a host that are this machine's, or a `UsageError` where there is none."""
    found = resolved(host)
    # A name may stand for more than there is: `localhost` for ::1, where IPv6 is switched off.
    own = [address for address in found if _is_own(address)]
    if not own:
        raise UsageError(f"--host {visible(host)}: {found[0]} is not an address of this machine.")
    return own


def free_port(addresses: list[str], port: int | None) -> int:
    """The port asked for, if nobody listens there; without one, the usual port or another free one."""
    for wanted in (PORT, 0) if port is None else (port,):
        try:
            found = wanted
            for address in addresses:
                found = _bound(address, found)
            return found
        except (OSError, OverflowError) as error:
            if port is not None:
                raise UsageError(
                    f"port {port} of {addresses[0]} cannot be used ({error})."
                ) from error
    raise UsageError(f"no free port on {addresses[0]}.")


def _bound(address: str, port: int) -> int:
    """The port an address can be bound to; 0 asks for any."""
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind((address, port))
        return int(s.getsockname()[1])


def _is_own(address: str) -> bool:
    """Whether an address can be bound at all, whatever the port."""
    try:
        return _bound(address, 0) > 0
    except OSError:
        return False
