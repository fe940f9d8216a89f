"""Matching of texts with the entries of rules: it sees through case, spacing and letters that look alike.

All of it is linear in the text and uses no regular expression. Pure functions.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from unicodedata import category, normalize

EXPRESSION_MARKS = frozenset("\\^$*+?{}[]()|")
FIRST_UNSPACED = 0x2E80  # from here on are the scripts that write no spaces between words
# Letters of other scripts that look like Latin ones in lower or upper case; NFKC and casefolding leave them alone.
LOOKALIKES = str.maketrans(
    "аеорсухіјѕһԁԛԝѵӏквнмтαεικνορτυχβζμηγɑɡıłøđ",
    "aeopcyxijshdqwvlkbhmtaeikvoptuxbzmhyagilod",
)
TOP_LEVEL_DOMAINS = frozenset((
    "app", "biz", "click", "club", "co", "com", "de", "eu", "info", "io", "link", "live", "me", "mobi", "net", "online",
    "org", "page", "pro", "ru", "shop", "site", "store", "top", "uk", "us", "vip", "website", "xyz",
))  # fmt: skip
DISGUISED_DOTS = ("[dot]", "(dot)", " dot ", "[.]", "(.)", " . ")
AUTHORITY_END = frozenset("/?#")
BESIDE_LINKS = str.maketrans(dict.fromkeys("()[]<>{}\"',;!|*", " "))


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
    decomposed = normalize("NFKD", text)
    letters = "".join(letter for letter in decomposed if category(letter) not in ("Mn", "Cf"))
    folded = normalize("NFKC", letters.casefold()).translate(LOOKALIKES)
    yield from "".join(letter if letter.isalnum() else " " for letter in folded).split()


def find_hosts(text: str) -> list[str]:
    """Return the hosts of the links of a text, also of those without a scheme."""
    folded = "".join(letter for letter in normalize("NFKC", text).casefold() if category(letter) != "Cf")
    for disguised in DISGUISED_DOTS:
        folded = folded.replace(disguised, ".")
    hosts = (_host(piece) for piece in folded.translate(BESIDE_LINKS).split())
    return [host for host in hosts if host]


def _host(piece: str) -> str:
    """Return the host of a link, or an empty string for a piece of text that is none."""
    scheme, separator, rest = piece.rpartition("://")
    is_link = bool(separator) and scheme.endswith(("http", "https"))
    name = rest if is_link else piece
    end = next((place for place, letter in enumerate(name) if letter in AUTHORITY_END), len(name))
    user, _separator, authority = name[:end].rpartition("@")
    host = authority.partition(":")[0].strip(".")
    is_named = host.startswith("www.") or host.rpartition(".")[2] in TOP_LEVEL_DOMAINS
    is_address = bool(user) and not is_link  # of e-mail
    return host.removeprefix("www.") if "." in host and (is_link or is_named) and not is_address else ""


def is_host_listed(host: str, listed: Iterable[str]) -> bool:
    """Return whether a host is one of these or below one."""
    return any(host == each or host.endswith(f".{each}") for each in listed)
