"""The streaming detokenizer: pieces join to the whole text."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models

from inference.engine.text.detokenizer import TextStream
from tests.inference.engine.tiny_models import SPECIAL, byte_tokenizer

BYTES = byte_tokenizer().backend_tokenizer
LONE = BYTES.encode("\u20ac").ids  # the bytes of a character, each a token


def decode(ids: list[int]) -> str:
    text: str = BYTES.decode(ids, skip_special_tokens=True)
    return text


def pieces(ids: list[int], *stop: str) -> list[str]:
    stream = TextStream(decode, stop)
    texts = [stream.push(token) for token in ids]
    return [*texts, stream.flush()]


@pytest.mark.parametrize("seed", range(30))
def test_pieces_of_any_tokens_join_to_the_text_without_an_incomplete_end(seed: int) -> None:
    draw = Random(seed)
    ids = [draw.randrange(BYTES.get_vocab_size()) for _ in range(draw.randrange(1, 80))]
    assert "".join(pieces(ids)) == decode(ids).rstrip("\ufffd")


runs = st.lists(
    st.tuples(st.sampled_from([*LONE, 0, 1]) | st.integers(0, BYTES.get_vocab_size() - 1), st.integers(1, 90)),
    max_size=8,
)


@given(runs)
def test_pieces_of_repeated_tokens_join_to_the_text(runs: list[tuple[int, int]]) -> None:
    ids = [token for token, times in runs for _ in range(times)]
    assert "".join(pieces(ids)) == decode(ids).rstrip("\ufffd")


@pytest.mark.parametrize("again", [[LONE[1]], [LONE[0]], LONE[:2], [0], [LONE[0], 0, 0]])
def test_tokens_without_text_are_decoded_a_bounded_number_of_times(again: list[int]) -> None:
    decoded = 0

    def counting(ids: list[int]) -> str:
        nonlocal decoded
        decoded += len(ids)
        return decode(ids)

    stream = TextStream(counting)
    ids = again * 1000
    assert not any(map(stream.push, ids))
    assert decoded < 100 * len(ids)


@pytest.mark.parametrize("seed", range(30))
def test_a_stop_sequence_ends_the_text_at_its_first_occurrence(seed: int) -> None:
    draw = Random(seed)
    ids = BYTES.encode("".join(draw.choice("ab") for _ in range(60))).ids
    stop = ["".join(draw.choice("ab") for _ in range(draw.randrange(2, 9))) for _ in range(2)]
    stream = TextStream(decode, tuple(stop))
    text = ""
    for token in ids:
        text += stream.push(token)
        if stream.stopped:
            break
    else:
        text += stream.flush()
    whole = decode(ids)
    assert text == whole[: min(place for place in [*map(whole.find, stop), len(whole)] if place >= 0)]


def test_a_special_token_between_words_keeps_the_space() -> None:
    words = ["▁a", "▁b", "</s>"]
    backend = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="▁a"))
    backend.decoder = decoders.Metaspace()
    backend.add_special_tokens(["</s>"])
    stream = TextStream(lambda ids: backend.decode(ids, skip_special_tokens=True), ())
    assert "".join(map(stream.push, [0, 2, 2, 1, 0])) == "a b a"


def test_only_a_possible_beginning_of_a_stop_sequence_is_held_back() -> None:
    ids = [BYTES.encode(letter).ids[0] for letter in "xlax"]
    assert pieces(ids, "lamp") == ["x", "", "", "lax", ""]
    assert pieces(ids, "lamp", "zz") == pieces(ids, "lamp")


def test_special_tokens_have_no_text() -> None:
    assert "".join(pieces(list(range(len(SPECIAL))))) == ""
