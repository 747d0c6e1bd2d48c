"""Makes names from strangers harmless where they are shown: terminals, CSV, Markdown, Mermaid, HTML, JSON inside HTML.

Names come from traces, dumps and file systems. What is dropped: control characters (C0, C1), whole escape sequences, bidi and
other invisible format characters, private-use and unassigned code points, lone surrogates. Text is never read as markup.
"""

from __future__ import annotations

import html
import re
import unicodedata

_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC, DCS: titles, links, clipboard
    r"|\x9b[0-?]*[ -/]*[@-~]"  # CSI as one C1 byte
    r"|\x1b[ -/]*[0-~]"  # two-character escapes
)
_SPACES = re.compile(r"[\t\n\v\f\r\x85\u2028\u2029]+")
_BLANK_LETTERS = frozenset("\u115f\u1160\u3164\uffa0\u2800")
_FORMULA = re.compile(r"^[\s'\"]*[=+\-@|%\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$")
_MARKDOWN = re.compile(r"[\\`*\[\]<>&|~#$@]|(?<![^\W_])_|_(?![^\W_])|(?<=:)/|(?<=www)\.", re.ASCII | re.IGNORECASE)
_MARKDOWN_BLOCK = re.compile(r"^(\s*)([-+=])(?![\d.])|^(\s*\d{1,9})([.)])(?=\s|$)")
_MERMAID = re.compile(r"\bend\b|[^\w .,:()/+*=-]", re.IGNORECASE)
_JSON_HIDDEN = re.compile(
    "[\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)


def terminal(text: str) -> str:
    """One line of text that can only be read: nothing moves a cursor, changes a colour or turns the direction of writing."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c for c in _SPACES.sub(" ", _ESCAPES.sub("", text)) if _shown(c))


def width(text: str) -> int:
    """Columns that a safe text takes on a terminal: wide characters two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.category(c) in ("Mn", "Me") else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def clip(text: str, most: int) -> str:
    """`text` in at most that many columns; the middle gives way to `..`, since both ends of a name tell things apart."""
    if width(text) <= most:
        return text
    if most < 8:
        return _head(text, most)
    tail = (most - 2) // 2
    return _head(text, most - 2 - tail) + ".." + _head(text[::-1], tail)[::-1]


def csv_cell(text: str) -> str:
    """A text cell that no spreadsheet takes for a formula: an apostrophe goes before one that could be."""
    text = terminal(text)
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.match(text) else text


def markdown(text: str) -> str:
    """Inline Markdown that shows the text as it is: no emphasis, link, image, table cell, mention or HTML."""
    inline = _MARKDOWN.sub(lambda m: f"&#{ord(m[0])};" if m[0] in "<>&@/." else f"\\{m[0]}", terminal(text))
    return _MARKDOWN_BLOCK.sub(lambda m: f"{m[1] or m[3] or ''}\\{m[2] or m[4]}", inline)


def mermaid(text: str) -> str:
    """Text of a Mermaid diagram: letters, digits and plain marks stay; all else is an entity, and so is what begins a keyword."""
    return _MERMAID.sub(lambda m: f"#{ord(m[0][0])};{m[0][1:]}", terminal(text))


def html_text(text: str) -> str:
    """Text for an HTML element or a quoted attribute."""
    return html.escape(terminal(text), quote=True)


def json_escapes(document: str) -> str:
    """JSON text whose invisible and direction-turning characters are written as \\u escapes: same value, nothing hidden."""
    return document if document.isascii() and "\x7f" not in document else _JSON_HIDDEN.sub(_as_escape, document)


def json_in_html(document: str) -> str:
    """JSON text for a script element: no `</script>`, no comment, no entity can come out of it; same value."""
    document = json_escapes(document)
    return document.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _shown(char: str) -> bool:
    return unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp") and char not in _BLANK_LETTERS


def _head(text: str, most: int) -> str:
    taken = 0
    for i, char in enumerate(text):
        taken += width(char)
        if taken > most:
            return text[:i]
    return text


def _as_escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD800 + (code - 0x10000 >> 10):04x}\\u{0xDC00 + (code - 0x10000 & 0x3FF):04x}"
