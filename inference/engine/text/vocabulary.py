"""The bytes of each token of a fast tokenizer. A part of a character has bytes, but no text."""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from tokenizers import Tokenizer

HEX = re.compile(r"<0x([0-9A-F]{2})>")
METASPACE = "\u2581"
MAX_LETTER_BYTES = 4  # of UTF-8


class Vocabulary:
    """The tokens of a backend tokenizer. size: one more than the highest id. longest_token: bytes."""

    def __init__(self, backend: Tokenizer) -> None:
        pieces: dict[str, int] = backend.get_vocab(with_added_tokens=True)
        self.size = max(pieces.values()) + 1
        self._pieces = {token: piece for piece, token in pieces.items()}
        self._added = backend.get_added_tokens_decoder()
        self._replacements: list[tuple[str, str]] = []
        self._byte_level = self._byte_fallback = False
        stages = json.loads(backend.decoder.__getstate__()) if backend.decoder else None
        for decoder in _stages(stages):
            self._add_decoder(decoder)
        self.longest_token = self._longest_token()

    def _longest_token(self) -> int:
        """Return the bytes of the longest token that is not special, without computing those of short ones."""
        pieces = self._pieces
        growth = max([MAX_LETTER_BYTES, *(len(new.encode()) for _, new in self._replacements)])
        plain = pieces.keys() - {token for token, added in self._added.items() if added.special}
        least = len(self.token_bytes(max(plain, key=lambda token: len(pieces[token]))))
        return max(len(self.token_bytes(token)) for token in plain if growth * len(pieces[token]) >= least)

    def _add_decoder(self, decoder: dict[str, Any]) -> None:
        self._byte_level |= decoder["type"] == "ByteLevel"
        self._byte_fallback |= decoder["type"] == "ByteFallback"
        if decoder["type"] == "Metaspace":
            self._replacements.append((decoder.get("replacement", METASPACE), " "))
        if decoder["type"] == "WordPiece":
            self._replacements.append((decoder["prefix"], ""))
        if decoder["type"] == "BPEDecoder":
            self._replacements.append((decoder["suffix"], " "))
        if decoder["type"] == "Replace" and "String" in decoder["pattern"]:
            self._replacements.append((decoder["pattern"]["String"], decoder["content"]))

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes that a token adds to a text, or the spelling of a control token; b"" for an unused id."""
        piece = self._pieces.get(token, "")
        if token in self._added:
            return piece.encode()
        if self._byte_fallback and (byte := HEX.fullmatch(piece)):
            return bytes([int(byte[1], 16)])
        if self._byte_level:
            alphabet = _byte_level_alphabet()
            return b"".join(alphabet[letter] if letter in alphabet else letter.encode() for letter in piece)
        for old, new in self._replacements:
            piece = piece.replace(old, new)
        return piece.encode()


def _stages(decoder: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    if decoder is None:
        return
    if decoder["type"] == "Sequence":
        for stage in decoder["decoders"]:
            yield from _stages(stage)
    else:
        yield decoder


@cache
def _byte_level_alphabet() -> dict[str, bytes]:
    """Return GPT-2's letters of bytes: printable bytes are themselves, the others follow from U+0100 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("\u00a1"), ord("\u00ac") + 1), *range(ord("\u00ae"), 256)]
    others = [byte for byte in range(256) if byte not in printable]
    letters = {chr(byte): bytes([byte]) for byte in printable}
    return letters | {chr(256 + index): bytes([byte]) for index, byte in enumerate(others)}
