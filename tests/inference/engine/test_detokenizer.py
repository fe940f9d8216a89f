"""Text as it comes joins to the text as a whole."""

from random import Random

import pytest
from tokenizers import Tokenizer, decoders, models

from inference.engine.detokenizer import TextStream
from tests.inference.engine.tiny_models import SPECIAL, byte_tokenizer

BYTES = byte_tokenizer().backend_tokenizer


def decode(ids: list[int]) -> str:
    text: str = BYTES.decode(ids, skip_special_tokens=True)
    return text


def pieces(ids: list[int], *stop: str) -> list[str]:
    stream = TextStream(decode, stop)
    texts = [stream.push(token) for token in ids]
    return [*texts, stream.flush()]


@pytest.mark.parametrize("seed", range(30))
def test_any_tokens_join_to_the_whole_text_without_its_broken_end(seed: int) -> None:
    draw = Random(seed)
    ids = [draw.randrange(BYTES.get_vocab_size()) for _ in range(draw.randrange(1, 80))]
    assert "".join(pieces(ids)) == decode(ids).rstrip("\ufffd")


@pytest.mark.parametrize("seed", range(30))
def test_a_stop_sequence_ends_the_text_where_it_first_stands(seed: int) -> None:
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


def test_a_special_token_in_between_swallows_no_space() -> None:
    words = ["▁a", "▁b", "</s>"]
    backend = Tokenizer(models.WordLevel({word: place for place, word in enumerate(words)}, unk_token="▁a"))
    backend.decoder = decoders.Metaspace()
    backend.add_special_tokens(["</s>"])
    stream = TextStream(lambda ids: backend.decode(ids, skip_special_tokens=True), ())
    assert "".join(map(stream.push, [0, 2, 2, 1, 0])) == "a b a"


def test_only_what_may_begin_a_stop_sequence_is_held() -> None:
    ids = [BYTES.encode(letter).ids[0] for letter in "xlax"]
    assert pieces(ids, "lamp") == ["x", "", "", "lax", ""]
    assert pieces(ids, "lamp", "zz") == pieces(ids, "lamp")


def test_special_tokens_have_no_text() -> None:
    assert "".join(pieces(list(range(len(SPECIAL))))) == ""
