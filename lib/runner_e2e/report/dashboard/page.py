"""The page itself: markup, style and script of the package, the campaign as data that no markup can leave."""

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files

from runner_e2e.report.dashboard.packing import Packed, Record, order_by_need, pack
from runner_e2e.report.dashboard.picture import is_picture

# One script, read in this order.
SCRIPTS = (
    "dom",
    "words",
    "data",
    "state",
    "overview",
    "filters",
    "grid",
    "list",
    "sheet",
    "isolation",
    "main",
)
# Characters of a page that opens at once: pictures get what the rest leaves, and at least the second.
PAGE_SIZE = 4_900_000
LEAST_PICTURES = 500_000
_PLACE = re.compile(r"@([A-Z]+)@")


def build_dashboard(document: Record, screenshots: Mapping[str, bytes]) -> bytes:
    """Return `dashboard.html`: one file that shows the campaign and needs nothing else.

    `document` is that of `results.json`, `screenshots` maps names of cells to the bytes of their pictures:
    those that are no PNG are left out, and so is what does not fit, cells that did not pass coming first.
    Every string of the document lies in the page as base64, and a policy allows only the page's own script.
    """
    style, theme, script = read_part("style.css"), read_part("theme.js"), read_script()
    packed = pack(document)
    room = max(LEAST_PICTURES, PAGE_SIZE - sum(map(len, (packed.index, *packed.blocks, style, script))))
    parts = {
        "POLICY": build_policy(style, (theme, script)),
        "STYLE": style,
        "THEME": theme,
        "SCRIPT": script,
        "DATA": "\n".join(_data_elements(packed, _choose_pictures(document, screenshots, room))),
    }
    page = _PLACE.sub(lambda place: parts[place[1]], read_part("template.html"))
    return page.encode()


def build_policy(style: str, scripts: Sequence[str]) -> str:
    """Return the Content-Security-Policy under which only these parts work, and nothing is fetched."""
    own = " ".join(_source(script) for script in scripts)
    return (
        f"default-src 'none'; script-src {own}; style-src {_source(style)}; img-src data:; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


@cache
def read_part(name: str) -> str:
    """Return a file of this package."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def read_script() -> str:
    """Return the whole script of the page; its parts share one scope that nothing else sees."""
    body = "\n".join(read_part(f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{body}}})();\n'


def _source(content: str) -> str:
    digest = hashlib.sha256(content.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def _choose_pictures(
    document: Record, screenshots: Mapping[str, bytes], room: int
) -> Iterator[tuple[int, str]]:
    cells = document.get("cells")
    rows = [cell for cell in cells if isinstance(cell, Mapping)] if isinstance(cells, list) else []
    for number in order_by_need(rows):
        content = screenshots.get(str(rows[number].get("name")), b"")
        encoded = base64.b64encode(content).decode("ascii") if is_picture(content) else ""
        if encoded and len(encoded) <= room:
            room -= len(encoded)
            yield number, encoded


def _data_elements(packed: Packed, pictures: Iterator[tuple[int, str]]) -> Iterator[str]:
    yield _data_element("index", packed.index)
    for number, block in enumerate(packed.blocks):
        yield _data_element(f"block-{number}", block)
    for number, picture in pictures:
        yield _data_element(f"picture-{number}", picture)


def _data_element(name: str, content: str) -> str:
    # A type that no browser runs; base64 holds nothing that ends the element.
    return f'<script type="application/octet-stream" id="{name}">{content}</script>'
