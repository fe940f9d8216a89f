"""Prompts that request a product description. Names and keywords are data, each on one line."""

from dataclasses import dataclass

from commerce.descriptions.text.fact_forms import in_writing_order
from commerce.descriptions.text.plain_text import plain_text, strip_invisible

SYSTEM_PROMPT = "You write product descriptions for an online shop."
FACTS_ONLY = (
    "State the given facts, each in its words, and nothing else: "
    "no use, user, place, quality or effect that is not given."
)
# The built-in model's small vocabulary needs up to two tokens per word, and some more for names and punctuation.
TOKENS_PER_WORD = 2
EXTRA_TOKENS = 32
DEFAULT_MAX_TOKENS = 200
MAX_SHORT_WORDS = 40
MAX_MEDIUM_WORDS = 80

# Models that were trained on this prompt, and need no examples.
TRAINED_MODELS = frozenset({"stoa-describer", "stoa-writer"})
# Models that write English only.
ENGLISH_MODELS = TRAINED_MODELS | {"SmolLM2-135M-Instruct"}
# Models that were trained to use plain words beside the given ones, so that every other word is an invention.
PLAIN_MODELS = frozenset({"stoa-writer"})

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


def build_messages(request: DescriptionRequest, model: str, *, order: int = 0) -> list[dict[str, str]]:
    """Return the Chat Completions messages that request this description from a model.

    order: the number of another order of the facts. 0 is the one with facts of one form together. A model that was not
    trained on them gets two examples of a product name with its text before.
    """
    messages = [{"role": "system", "content": SYSTEM_PROMPT}]
    if request.product_name and model not in TRAINED_MODELS:
        messages[0]["content"] += f" {FACTS_ONLY}"
        for example, text in EXAMPLES:
            messages += [{"role": "user", "content": _user_message(example)}, {"role": "assistant", "content": text}]
    return [*messages, {"role": "user", "content": _user_message(request, order)}]


def instructions(request: DescriptionRequest, model: str) -> str:
    """Return the first and the last message to a model: the system message and the request, without examples."""
    first, *_examples, last = build_messages(request, model)
    return f"{first['content']}\n{last['content']}"


def can_write(language: str, model: str) -> bool:
    """Return whether a model writes this language. Models that are not ours are expected to."""
    return model not in ENGLISH_MODELS or is_english(language)


def is_english(language: str) -> bool:
    """Return whether a language tag is English."""
    return language.partition("-")[0] == "en"


def _user_message(request: DescriptionRequest, order: int = 0) -> str:
    lines = ["Write a product description.", f"Product name: {_one_line(request.product_name)}"]
    if request.prompt:
        lines = [_one_line(request.prompt)]
    keywords = request.keywords
    by_form = in_writing_order(keywords) if is_english(request.language) else keywords
    ordered = (by_form, keywords, keywords[::-1])[order % 3]
    if keywords := tuple(_one_line(keyword) for keyword in ordered if plain_text(keyword)):
        lines.append(f"Keywords: {', '.join(keywords)}")
    if request.tone:
        lines.append(f"Tone: {_one_line(request.tone)}")
    if request.language != "en":
        lines.append(f"Language: {_one_line(request.language)}")
    if request.max_words:
        lines.append(f"Length: {_length_name(request.max_words)} ({request.max_words} words)")
    return "\n".join(lines)


def max_tokens(request: DescriptionRequest) -> int:
    """Return the maximum number of tokens that the model may write: enough for the given facts at least."""
    given = sum(map(len, (request.product_name, *request.keywords)))
    asked = request.max_words * TOKENS_PER_WORD + EXTRA_TOKENS if request.max_words else DEFAULT_MAX_TOKENS
    return max(asked, given // 2 + EXTRA_TOKENS)


def _length_name(words: int) -> str:
    """Return a word for this length that small models understand."""
    return "short" if words <= MAX_SHORT_WORDS else "medium" if words <= MAX_MEDIUM_WORDS else "long"


def _one_line(text: str) -> str:
    """Return the text on one line without invisible characters, so that a name cannot add a line to the prompt."""
    return " ".join(strip_invisible(text).split())


# Texts that state the given facts and nothing else, for models that learn from examples.
EXAMPLES = (
    (
        DescriptionRequest(product_name="Arden Wall Clock", keywords=("walnut", "30 cm", "silent movement")),
        "Here is the Arden Wall Clock. It is made of walnut, measures 30 cm and has a silent movement.",
    ),
    (
        DescriptionRequest(product_name="Sunny Garden Gloves", keywords=("washable", "size M"), tone="friendly"),
        "Meet the Sunny Garden Gloves. They are washable and come in size M.",
    ),
)
