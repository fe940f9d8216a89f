"""Invented words of many styles, and which of them training may see.

Whether an invented word or a composed phrase may be seen in training is decided by its hash alone (`is_held_out`): one
in ten is kept for measuring and never appears in a training text.
"""

import hashlib
from random import Random

HELD_OUT_SHARE = 10


def is_held_out(phrase: str) -> bool:
    """Return whether a phrase, in whatever case, is kept out of training."""
    return hashlib.sha256(phrase.lower().encode()).digest()[0] % HELD_OUT_SHARE == 0


def article(phrase: str) -> str:
    """Return the indefinite article that a phrase takes: "a" or "an"."""
    word = phrase.lower().lstrip("\"'")
    if word.startswith(("hour", "honest", "heir")):
        return "an"
    if word.startswith(("eu", "ew", "uni", "use", "usa", "usb", "uti", "one", "once", "ura", "uro")):
        return "a"
    if len(word) > 1 and phrase[:2].isupper() and phrase[:1] in "FLMNRSX":
        return "an"
    return "an" if word[:1] in "aeiou" or word[:1] == "8" or word.startswith(("11", "18")) else "a"


# For each style the onsets, vowels, codas and endings of its syllables; "-" stands for none.
STYLES = {
    "latin": (
        "v l m s t c n r p d f b qu gl pr cl br tr - -",
        "a e i o u ia io eo ae",
        "n r s l x nt st m - - - - - -",
        "a o us um is ix ora ella ino era ium ana ette ara",
    ),
    "nordic": (
        "h k s f b g t v sk st fj br gr kr n l hj sn tr -",
        "a o e i u y ei au oe",
        "r l n lm rn ld nd rd sk k v g - - - - - - -",
        "en heim a dal vik by sund lund e berg fell gard strand holm s",
    ),
    "japanese": (
        "k s t n h m y r sh ch ts w g z d b - -",
        "a i u e o a o ai",
        "- - - - n",
        "ko ka shi ri no mi ta ra to ne ku ma zu",
    ),
    "english": (
        "b br c cl cr d dr f fl g gr h j k l m n p pl r s sh sl sp st sw t th tr w wh v -",
        "a e i o u ea oo ai ow ee",
        "ck d ft ll m n nd ng p r rk rt sh ss st t w x zz lt mp ve - - - - - - - - - - -",
        "er y le ley ton ford ing ed wick field more ow et wood ling mark s",
    ),
    "tech": (
        "z x v k n t d q cr tr fl s m l pl h gl -",
        "e i o a y u eo io",
        "x n r k v z t l ph - - - - - -",
        "on ix ify io ra tek ex yx ly oid tron eo ax iva ero zen scape",
    ),
    "slavic": (
        "v b z d k l m n p r s t dr gr kr sv zl st vl br -",
        "a e i o u a o",
        "v k n r l sk t z m d - - - - - -",
        "ka ov ek in na ava ik ko eva ina nik ar ica",
    ),
    "romance": (
        "b c d f g l m n p r s t v ch j br fl gr -",
        "a e i o u ou ai eau ie",
        "n r l s t rd nt c - - - - -",
        "ette elle eau ier ine ille aux oire anne ine ance osa ero ita",
    ),
}
ACCENTS = {"e": "éèë", "a": "áäå", "o": "öóø", "u": "üú", "i": "íï", "n": "ñ", "c": "ç"}


def _syllables(random: Random, count: int, style: str) -> str:
    onsets, vowels, codas, _ = (sounds.split() for sounds in STYLES[style])
    parts = (random.choice(sounds) for _ in range(count) for sounds in (onsets, vowels, codas))
    return "".join(part for part in parts if part != "-")


def _invented_word(random: Random, endings: tuple[str, ...] | None = None) -> str:
    """Return a lower-case invented word of four to twelve letters, now and then with an accent."""
    style = random.choice(tuple(STYLES))
    while True:
        word = _syllables(random, random.choice((1, 1, 2, 2)), style) + random.choice(
            endings or STYLES[style][3].split()
        )
        if 4 <= len(word) <= 12:
            break
    if random.random() < 0.03:
        plain = random.choice([letter for letter in word if letter in ACCENTS] or "e")
        word = word.replace(plain, random.choice(ACCENTS[plain]), 1)
    return word


def invented(random: Random, held_out: bool, endings: tuple[str, ...] | None = None) -> str:
    """Return a lower-case invented word, from the training share or from the held-out one."""
    while is_held_out(word := _invented_word(random, endings)) != held_out:
        pass
    return word
