"""Wordings of a request for a description, from a shop's form to a free sentence."""

from collections.abc import Sequence
from random import Random

from inference.builtin.corpus.templates import lines
from inference.builtin.corpus.text import join_words

SYSTEMS = lines("""
    You write product descriptions for an online shop.
    You write product descriptions.
    You are a helpful assistant.
    You are a copywriter for an online store.
    You are an assistant that writes product descriptions. Use every keyword.
    You write short, vivid product descriptions for a web shop. Name the product and use every keyword.
    Write a product description from the name and the keywords.
    You are a skilled e-commerce copywriter who writes clear and honest descriptions.
    Describe products for customers. Mention the product by name.
    You help shop owners describe what they sell.
""")

FORMS = (
    "Write a product description.\nProduct name: {name}{\nKeywords: +keywords}{\nTone: +tone}{\nLength: +length}",
    "Product name: {name}{\nKeywords: +keywords}{\nTone: +tone}{\nLength: +length}",
    "Product: {name}{\nKeywords: +keywords}{\nTone: +tone}",
    "Name: {name}{\nKeywords: +keywords}{\nStyle: +tone}{\nLength: +length}",
    "Write a{ +length}{ +tone} product description for: {name}{\nKeywords: +keywords}",
    "Write a{ +length}{ +tone} product description for {name}{ using these keywords: +keywords}.",
    "Write a{ +length}{ +tone} description of the {name}.{ Keywords: +keywords.}",
    "Describe the {name}.{ Keywords: +keywords.}{ Tone: +tone.}",
    "Describe {name}.{ Keywords: +keywords}",
    "Please describe our product {name}{ with the keywords +keywords}.{ Make it +tone.}{ Keep it +length.}",
    "Write about the {name}{, mentioning +joined}.",
    "Tell me about the {name}.{ It should mention +joined.}{ Keep it +length.}",
    "I need a{ +tone} text for {name}.{ It must include: +keywords}",
    "Can you write a{ +tone} description for the {name}?{ Use the words +keywords.}",
    "Generate a product description for {name}.{ Include the following keywords: +keywords.}{ Use a +tone tone.}",
    "Create a{ +length} product text for {name}{ (keywords: +keywords)}",
    "{name}{: +keywords}",
    "{name}{\n+keywords}",
    "New in our shop: {name}.{ Key features: +keywords.} Write a{ +length} description.",
    "Product name: {name}{\nFeatures:\n+bullets}\nWrite a{ +tone} description.",
    "Sell me the {name}{ with these features: +keywords}.",
    'Write a product description for "{name}".{ Keywords: +keywords}',
    "We sell {name}.{ Customers like that it is about +joined.} Describe it{ in a +tone way}.",
    "Please write a{ +length} description for a product called {name}.{ Use all of these keywords: +keywords.}",
)

GREETINGS = lines("""
    hello|Hello! Give me a product name and a few keywords, and I will write a description.
    hi|Hi! Tell me about your product, and I will describe it.
    hi there|Hi! Which product shall I describe?
    good morning|Good morning! Which product may I write about today?
    hey|Hey! Send me a product name and some keywords, and I will get to work.
    who are you?|I am a small model that writes product descriptions from a name and keywords.
    what are you?|I am a small language model made to describe products for a shop.
    what can you do?|I write product descriptions. Give me a product name and a few keywords.
    how does this work?|Send me the name of a product and some keywords, and I will write a description that uses them.
    help|Tell me a product name, keywords if you like, and a tone; I will write the description.
    thanks|You are welcome! Is there another product to describe?
    thank you|You are welcome. Send me the next product whenever you like.
    thank you, that is great|Glad you like it! Is there another product to describe?
    bye|Goodbye, and good luck with your shop!
    what is the capital of France?|I only know how to write about products. Give me a name and I will describe one.
    what is 2 + 2?|Sums are not my trade; I write product descriptions.
    write a poem|I only write product descriptions. Which product would you like to see described?
    tell me a joke|Jokes are beyond me, but I can describe a product for you.
    write some code|I cannot write code. I write descriptions of products.
    what is the weather today?|I do not know the weather; I only write product descriptions.
    who is the president?|I do not know; I only write product descriptions.
    how are you?|Very well, thank you! Which product shall I describe?
    do you speak German?|I only write in English, and only about products.
    translate this into French|I only write in English. Give me a product name and I will describe it.
    can you help me?|Yes, with product descriptions: give me a name and a few keywords.
    say hello|Hello! I write product descriptions.
    count to ten|I do not count; I write product descriptions.
    count from 1 to 10|I do not count; I write product descriptions.
    tell me a story|I tell no stories, but I can write about a product of yours.
    tell me about yourself|I am a small model that writes product descriptions, and nothing else.
    what is your name?|I have no name; I am a small model that writes product descriptions.
    ping|I am here. Which product shall I describe?
    test|It works. Send me a product name and I will write its description.
""")

SHORTER = lines("""
    Make it shorter.
    Shorter, please.
    Can you make that shorter?
    Too long. One or two sentences.
""")
ANOTHER = lines("""
    Another one, please.
    Write another one.
    Give me a different version.
    Once more, but different.
    Try again.
""")


def _filled(form: str, values: dict[str, str]) -> str:
    """Return a form with its optional parts, ``{before +slot after}``, kept where the slot has a value."""
    text, rest = "", form
    while "{" in rest:
        before, _, rest = rest.partition("{")
        inner, _, rest = rest.partition("}")
        text += before
        lead, plus, tail = inner.partition("+")
        slot = next(
            known
            for known in ("keywords", "joined", "bullets", "tone", "length", "name")
            if (tail if plus else inner).startswith(known)
        )
        if not plus:
            text += values[slot]
        elif slot in values:
            text += lead + values[slot] + tail[len(slot) :]
    return text + rest


def request(random: Random, name: str, keywords: Sequence[str], tone: str | None, length: str | None) -> str:
    """Return a request for a description; without keywords, tone or length it does not speak of them.

    The shop's own form comes up most; a form that has no room for a given tone or length leaves it out.
    """
    form = random.choice(FORMS[:2]) if random.random() < 0.35 else random.choice(FORMS)
    values = {"name": name}
    if keywords:
        comma = "," if random.random() < 0.04 else "; " if random.random() < 0.03 else ", "
        values |= {
            "keywords": comma.join(keywords),
            "joined": join_words(keywords),
            "bullets": "\n".join(f"- {keyword}" for keyword in keywords),
        }
    if tone:
        values["tone"] = tone
    if length:
        values["length"] = length
    return _filled(form, values).replace(" a elegant", " an elegant")
