"""What run-cell tells its warden: which command to start. Pure, and loads next to nothing.

It goes over a socket, since a command line and a file can be read by others and an environment would
hold the credential a second time.
"""

LENGTH_BYTES = 8


def encode_order(
    directory: bytes, words: list[bytes], environment: dict[bytes, bytes], protected: list[bytes]
) -> bytes:
    """Return the order with its length before it. No part may hold a NUL byte, no name a `=`.

    `protected` is for `sandbox.confine`: what nobody below the warden may change.
    """
    parts = [directory, b"%d" % len(words), *words, b"%d" % len(protected), *protected]
    parts += [name + b"=" + value for name, value in environment.items()]
    body = b"".join([part + b"\0" for part in parts])
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


def decode_order(body: bytes) -> tuple[bytes, list[bytes], dict[bytes, bytes], list[bytes]]:
    """Return the parts of an order, given without its length."""
    directory, count, *parts = body.split(b"\0")[:-1]
    words, (count, *parts) = parts[: int(count)], parts[int(count) :]
    protected, entries = parts[: int(count)], parts[int(count) :]
    environment = {}
    for entry in entries:
        name, _, value = entry.partition(b"=")
        environment[name] = value
    return directory, words, environment, protected
