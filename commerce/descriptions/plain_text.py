"""A model's text as plain text: what is a mark to a browser, a Markdown reader, a terminal or a model is taken out, and
words stay. Pure, and linear in the length of the text. What shows a description escapes it all the same."""

import html
import re
import unicodedata

# What a chat template would take for a role's beginning or end, and what a browser would take for a tag.
_MODEL_MARK = re.compile(r"<\|[^<>|\n]{0,64}\|>")
_COMMENT = re.compile(r"<!--[^<>]*-->")
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,2000}>")
_LINK = re.compile(r"!?\[([^\[\]\n]{0,500})\]\([^()\n]{0,2000}(?:\([^()\n]{0,500}\)[^()\n]{0,500}){0,3}\)")
_FENCE = re.compile(r"^[ \t]*(?:`{3,}|~{3,})[^\n`]*$", re.MULTILINE)
_RULE = re.compile(r"^[ \t]*(?:-{3,}|\*{3,}|_{3,}|={3,})[ \t]*$", re.MULTILINE)
_LINE_MARK = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|(?:>[ \t]?){1,9})", re.MULTILINE)
_BULLET = re.compile(r"^([ \t]*)\*[ \t]+", re.MULTILINE)
_STARS = re.compile(r"(?<![\w*])(\*{1,3})(?=[^\s*])([^*\n]{0,500}[^\s*])\1(?![\w*])")
_UNDERSCORES = re.compile(r"(?<![\w_])(_{1,3})(?=[^\s_])([^_\n]{0,500}[^\s_])\1(?![\w_])")
_STRUCK = re.compile(r"~~([^~\n]{1,500})~~")
_CODE = re.compile(r"`{1,2}([^`\n]{1,500})`{1,2}")
_BLANK_END = re.compile(r"(?<![ \t])[ \t]+$", re.MULTILINE)
_EMPTY_LINES = re.compile(r"\n{3,}")
# Joiners are part of words and of pictures; everything else of these kinds steers how the rest is shown.
_KEPT = frozenset("\n\u200c\u200d")
_STEERING = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_ROUNDS = 3  # what is left of a mark may be another mark: `<b<b>>`
# And of many, of those without an end, and of tags around other marks: what a browser would still take for a tag.
_OPENED = re.compile(r"<(?=[A-Za-z/!?|])")


def plain_text(text: str) -> str:
    """The words alone, in lines, with no blanks around them."""
    text = visible(html.unescape(text).replace("\r\n", "\n").replace("\r", "\n"))
    for _ in range(_ROUNDS):
        for mark in (_MODEL_MARK, _COMMENT, _TAG):
            text = mark.sub("", text)
    for mark, kept in (
        (_LINK, r"\1"), (_FENCE, ""), (_RULE, ""), (_LINE_MARK, ""), (_BULLET, r"\1- "),
        (_STARS, r"\2"), (_UNDERSCORES, r"\2"), (_STRUCK, r"\1"), (_CODE, r"\1"), (_BLANK_END, ""),
    ):  # fmt: skip
        text = mark.sub(kept, text)
    text = _OPENED.sub("< ", text)
    return _EMPTY_LINES.sub("\n\n", text).strip()


def visible(text: str) -> str:
    """Without control characters, overrides of direction, and what no font can show. A tab is a blank."""
    return "".join(
        character
        for character in text.replace("\t", " ").replace("\u2028", "\n").replace("\u2029", "\n")
        if character in _KEPT or unicodedata.category(character) not in _STEERING
    )
