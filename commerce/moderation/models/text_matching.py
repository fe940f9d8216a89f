"""Matching of texts with the entries of rules: it sees through case, spacing and letters that look alike.

All of it is linear in the text and uses no regular expression. Pure functions.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate, product
from string import ascii_uppercase
from unicodedata import category, lookup, normalize

EXPRESSION_MARKS = frozenset("\\^$*+?{}[]()|")
FIRST_UNSPACED = 0x2E80  # from here on are the scripts that write no spaces between words
# Letters of other scripts that look like Latin ones in lower or upper case; NFKC and casefolding leave them alone.
LOOKALIKES = str.maketrans(
    "аеорсухіјѕһԁԛԝѵӏквнмтαεικνορτυχβζμηγɑɡıłøđօսոհց",
    "aeopcyxijshdqwvlkbhmtaeikvoptuxbzmhyagilodounhg",
    "\u115f\u1160",  # fillers, which are letters that nobody sees
)
LATIN_FORMS = (
    "LATIN LETTER SMALL CAPITAL ", "REGIONAL INDICATOR SYMBOL LETTER ", "NEGATIVE CIRCLED LATIN CAPITAL LETTER ",
    "NEGATIVE SQUARED LATIN CAPITAL LETTER ",
)  # fmt: skip
for _form, _letter in product(LATIN_FORMS, ascii_uppercase):
    with suppress(KeyError):  # there is no small capital X
        LOOKALIKES[ord(lookup(_form + _letter))] = ord(_letter.lower())
TOP_LEVEL_DOMAINS = frozenset((
    "app", "biz", "click", "club", "co", "com", "de", "eu", "info", "io", "link", "live", "me", "mobi", "net", "online",
    "org", "page", "pro", "ru", "shop", "site", "store", "top", "uk", "us", "vip", "website", "xyz",
))  # fmt: skip
DISGUISED_DOTS = ("[dot]", "(dot)", " dot ", "[.]", "(.)", " . ", " .", "\u3002")  # the last is the Chinese full stop
AUTHORITY_END = frozenset("/?#\\")
INSIDE_LINKS = frozenset("-_.:/?#@%&=+~\\")  # besides letters and digits


@dataclass(frozen=True)
class MatchedText:
    """The words of a text without what is between them, with the places where a word begins and where one ends."""

    joined: str
    starts: frozenset[int]
    ends: frozenset[int]

    @classmethod
    def of(cls, text: str) -> "MatchedText":
        words = list(split_words(text))
        lengths = list(accumulate(map(len, words), initial=0))
        return cls("".join(words), frozenset(lengths[:-1]), frozenset(lengths[1:]))

    def contains(self, entry: str) -> bool:
        """Return whether the words of an entry stand in the text, spaced in any way, and not inside another word."""
        found = "".join(split_words(entry))
        place = self.joined.find(found) if found else -1
        while place >= 0:
            if ord(found[0]) >= FIRST_UNSPACED or (place in self.starts and place + len(found) in self.ends):
                return True
            place = self.joined.find(found, place + 1)
        return False


def split_words(text: str) -> Iterator[str]:
    """Yield the words of a text in the form in which they are compared."""
    yield from "".join(letter if letter.isalnum() else " " for letter in _comparable(text)).split()


def find_hosts(text: str, *, listed: Iterable[str] = ()) -> list[str]:
    """Return the hosts of the links of a text in the form in which they are compared, also of those without a scheme.

    Without one, a name ends in one of TOP_LEVEL_DOMAINS or in that of a `listed` host.
    """
    folded = _comparable(text)
    for disguised in DISGUISED_DOTS:
        folded = folded.replace(disguised, ".")
    domains = TOP_LEVEL_DOMAINS.union(host.rpartition(".")[2] for host in listed)
    pieces = "".join(letter if letter.isalnum() or letter in INSIDE_LINKS else " " for letter in folded).split()
    return [host for piece in pieces if (host := _host(piece, domains))]


def entry_host(entry: str) -> str:
    """Return the host of an entry, which may be a whole link, or an empty string for one that has none."""
    return next(iter(find_hosts(entry if "://" in entry else f"https://{entry}")), "")


def _comparable(text: str) -> str:
    """Return a text without case, accents, invisible characters and lookalikes."""
    decomposed = normalize("NFKD", text)
    letters = "".join(letter for letter in decomposed if category(letter) not in ("Mn", "Cf"))
    return normalize("NFKC", letters.casefold()).translate(LOOKALIKES)


def _host(piece: str, domains: frozenset[str]) -> str:
    """Return the host of a link, or an empty string for a piece of text that is none."""
    scheme, separator, rest = piece.rpartition("://")
    is_link = bool(separator) and scheme.endswith(("http", "https"))
    name = rest if is_link else piece
    end = next((place for place, letter in enumerate(name) if letter in AUTHORITY_END), len(name))
    user, _separator, authority = name[:end].rpartition("@")
    if user and not is_link:
        return ""  # an address of e-mail
    for part in authority.replace("=", ":").split(":")[: 1 if is_link else None]:
        host = part.strip(".-_")
        if "." in host and (is_link or host.startswith("www.") or host.rpartition(".")[2] in domains):
            return host.removeprefix("www.")
    return ""


def is_host_listed(host: str, listed: Iterable[str]) -> bool:
    """Return whether a host is one of these or below one."""
    return any(host == each or host.endswith(f".{each}") for each in listed)
