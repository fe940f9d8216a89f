"""Conversion of a model's text to plain text. Linear in the length of the text.

Markup for browsers, Markdown, terminals and chat templates is removed. Pages escape the result all the same.
"""

import html
import re
import unicodedata

MAX_DESCRIPTION_LENGTH = 20_000  # characters, as in the catalog

# Special tokens of chat templates, and tags of HTML.
_MODEL_MARK = re.compile(r"<\|[^<>|\n]{0,64}\|>")
_COMMENT = re.compile(r"<!--[^<>]*-->")
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,2000}>")
_LINK = re.compile(r"!?\[([^\[\]\n]{0,500})\]\([^()\n]{0,2000}(?:\([^()\n]{0,500}\)[^()\n]{0,500}){0,3}\)")
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[^\n`]*$", re.MULTILINE)
_RULE = re.compile(r"^[ \t]*(?:-{3,}|\*{3,}|_{3,}|={3,})[ \t]*$", re.MULTILINE)
_LINE_PREFIX = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|(?:>[ \t]?){1,9})", re.MULTILINE)
_BULLET = re.compile(r"^([ \t]*)\*[ \t]+", re.MULTILINE)
_STARS = re.compile(r"(?<![\w*])(\*{1,3})(?=[^\s*])([^*\n]{0,500}[^\s*])\1(?![\w*])")
_UNDERSCORES = re.compile(r"(?<![\w_])(_{1,3})(?=[^\s_])([^_\n]{0,500}[^\s_])\1(?![\w_])")
_STRUCK = re.compile(r"~~([^~\n]{1,500})~~")
_CODE = re.compile(r"`{1,2}([^`\n]{1,500})`{1,2}")
_BLANK_END = re.compile(r"(?<![ \t])[ \t]+$", re.MULTILINE)
_EMPTY_LINES = re.compile(r"\n{3,}")
# Joiners are part of words and emoji. All other characters of these categories only control the display.
_ALLOWED_CONTROLS = frozenset("\n\u200c\u200d")
_CONTROL_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_PASSES = 3  # removing a mark can leave another mark: `<b<b>>`
# Tags that the passes left, such as unclosed ones, and that a browser would still parse.
_TAG_START = re.compile(r"<(?=[A-Za-z/!?|])")


def plain_text(text: str) -> str:
    """Return the text without markup, stripped of outer whitespace."""
    text = strip_invisible(html.unescape(text).replace("\r\n", "\n").replace("\r", "\n"))
    for _ in range(_PASSES):
        for mark in (_MODEL_MARK, _COMMENT, _TAG):
            text = mark.sub("", text)
    for mark, replacement in (
        (_LINK, r"\1"), (_FENCE, ""), (_RULE, ""), (_LINE_PREFIX, ""), (_BULLET, r"\1- "),
        (_STARS, r"\2"), (_UNDERSCORES, r"\2"), (_STRUCK, r"\1"), (_CODE, r"\1"), (_BLANK_END, ""),
    ):  # fmt: skip
        text = mark.sub(replacement, text)
    text = _TAG_START.sub("< ", text)
    return _EMPTY_LINES.sub("\n\n", text).strip()


def strip_invisible(text: str) -> str:
    """Return the text without control characters, bidirectional overrides and unassigned characters.

    Tabs become spaces.
    """
    return "".join(
        character
        for character in text.replace("\t", " ").replace("\u2028", "\n").replace("\u2029", "\n")
        if character in _ALLOWED_CONTROLS or unicodedata.category(character) not in _CONTROL_CATEGORIES
    )
