"""What the model is told, and what is expected of its text. Pure: names and keywords are data, one line each."""

from dataclasses import dataclass

from commerce.descriptions.plain_text import visible

SYSTEM = "You write product descriptions for an online shop."
# A small vocabulary takes up to two tokens a word; names and punctuation need some room beside.
TOKENS_A_WORD = 2
TOKENS_BESIDE = 32
DEFAULT_MAX_TOKENS = 200
SHORT_WORDS = 40
MEDIUM_WORDS = 80


@dataclass(frozen=True)
class Brief:
    """What a shop asks for: a product's name, or a whole request in the shop's own words; and what else is wished."""

    product_name: str = ""
    request: str = ""
    keywords: tuple[str, ...] = ()
    tone: str = ""
    language: str = "en"
    max_words: int | None = None


def messages(brief: Brief) -> list[dict[str, str]]:
    """The chat that asks for this description, in the Chat Completions form."""
    lines = ["Write a product description.", f"Product name: {_one_line(brief.product_name)}"]
    if brief.request:
        lines = [_one_line(brief.request)]
    if brief.keywords:
        lines.append(f"Keywords: {', '.join(_one_line(keyword) for keyword in brief.keywords)}")
    if brief.tone:
        lines.append(f"Tone: {_one_line(brief.tone)}")
    if brief.language != "en":
        lines.append(f"Language: {_one_line(brief.language)}")
    if brief.max_words:
        lines.append(f"Length: {_length(brief.max_words)} ({brief.max_words} words)")
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "\n".join(lines)}]


def max_tokens(brief: Brief) -> int:
    """How many tokens the model may write."""
    return brief.max_words * TOKENS_A_WORD + TOKENS_BESIDE if brief.max_words else DEFAULT_MAX_TOKENS


def names_product(text: str, brief: Brief) -> bool:
    """Whether the text names the product, whatever the case; true where no name was given."""
    return _one_line(brief.product_name).casefold() in _one_line(text).casefold()


def _length(words: int) -> str:
    """The word for a length that small models know."""
    return "short" if words <= SHORT_WORDS else "medium" if words <= MEDIUM_WORDS else "long"


def _one_line(text: str) -> str:
    """Line ends and runs of blanks as single blanks, and nothing that cannot be seen: a name cannot pass for another
    line of the request."""
    return " ".join(visible(text).split())
