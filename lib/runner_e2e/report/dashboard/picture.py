"""Which bytes may be shown as a picture. Pure."""

SIGNATURE = b"\x89PNG\r\n\x1a\n"
# Beyond these a small file could still unpack into gigabytes.
MOST_PIXELS_A_SIDE = 8192
MOST_PIXELS = 25_000_000


def is_picture(content: bytes) -> bool:
    """Whether these bytes begin as a PNG of a size that a browser can show."""
    head = content[8:24]
    if not content.startswith(SIGNATURE) or len(head) < 16 or head[:8] != b"\0\0\0\rIHDR":
        return False
    width, height = int.from_bytes(head[8:12]), int.from_bytes(head[12:])
    longest = max(width, height)
    return min(width, height) > 0 and longest <= MOST_PIXELS_A_SIDE and width * height <= MOST_PIXELS
