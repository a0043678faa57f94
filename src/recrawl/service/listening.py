"""Listen on an address and a port."""

import socket

__all__ = ["ListenError", "bind_socket"]

_BACKLOG = 2_048


class ListenError(OSError):
    """A server cannot listen: its port is taken, or its address is not one of this machine."""


def bind_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address and a port.

    Parameters
    ----------
    host
        Address to listen on.
    port
        Port to listen on; 0 for any that is free.

    Raises
    ------
    ListenError
        If that is not possible.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named, asyncio sends answers without delay (TCP_NODELAY); otherwise each
    # answer on a connection that is kept would wait 40 ms.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host.strip("[]"), port))
        bound.listen(_BACKLOG)
    except OSError as error:
        bound.close()
        what = error.strerror or str(error)
        raise ListenError(f"cannot listen on {host} port {port}: {what}") from error
    return bound
