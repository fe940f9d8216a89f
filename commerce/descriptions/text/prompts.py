"""Prompts that request a product description. Names and keywords are data, each on one line."""

from dataclasses import dataclass

from commerce.descriptions.text.plain_text import strip_invisible

SYSTEM_PROMPT = "You write product descriptions for an online shop."
# The built-in model's small vocabulary needs up to two tokens per word, and some more for names and punctuation.
TOKENS_PER_WORD = 2
EXTRA_TOKENS = 32
DEFAULT_MAX_TOKENS = 200
MAX_SHORT_WORDS = 40
MAX_MEDIUM_WORDS = 80

MAX_KEYWORDS_COUNT = 20
MAX_KEYWORD_LENGTH = 64
LANGUAGE_PATTERN = r"\A[a-z]{2,3}(-[A-Za-z0-9]{2,8})?\Z"


@dataclass(frozen=True)
class DescriptionRequest:
    """The input of a prompt: a product's name, or a free prompt of the shop, with style options."""

    product_name: str = ""
    prompt: str = ""
    keywords: tuple[str, ...] = ()
    tone: str = ""
    language: str = "en"
    max_words: int | None = None


def build_messages(request: DescriptionRequest) -> list[dict[str, str]]:
    """Return the Chat Completions messages that request this description."""
    lines = ["Write a product description.", f"Product name: {_one_line(request.product_name)}"]
    if request.prompt:
        lines = [_one_line(request.prompt)]
    if request.keywords:
        lines.append(f"Keywords: {', '.join(_one_line(keyword) for keyword in request.keywords)}")
    if request.tone:
        lines.append(f"Tone: {_one_line(request.tone)}")
    if request.language != "en":
        lines.append(f"Language: {_one_line(request.language)}")
    if request.max_words:
        lines.append(f"Length: {_length_name(request.max_words)} ({request.max_words} words)")
    return [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": "\n".join(lines)}]


def max_tokens(request: DescriptionRequest) -> int:
    """Return the maximum number of tokens that the model may write."""
    return request.max_words * TOKENS_PER_WORD + EXTRA_TOKENS if request.max_words else DEFAULT_MAX_TOKENS


def names_product(text: str, request: DescriptionRequest) -> bool:
    """Return whether the text contains the product's name in any case, or the request has no name."""
    return _one_line(request.product_name).casefold() in _one_line(text).casefold()


def _length_name(words: int) -> str:
    """Return a word for this length that small models understand."""
    return "short" if words <= MAX_SHORT_WORDS else "medium" if words <= MAX_MEDIUM_WORDS else "long"


def _one_line(text: str) -> str:
    """Return the text on one line without invisible characters, so that a name cannot add a line to the prompt."""
    return " ".join(strip_invisible(text).split())
