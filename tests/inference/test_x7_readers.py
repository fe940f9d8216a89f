"""Row X7: what reads the bytes of strangers, under bytes that are nearly right. A reader answers, or refuses with an
error of its own; anything else is a crash."""

import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from inference.batches.submission import parse_batch
from inference.engine import EngineError
from inference.engine.formats.gguf_header import read_gguf_header
from inference.engine.formats.safetensors_header import read_safetensors_header
from inference.protocol.native.websocket import parse_client_message
from shared.api.errors import ApiError
from shared.api.parsers import parse_json
from shared.webhooks.destinations import InvalidDestination, parse_destination

pytestmark = pytest.mark.no_database

Reader = Callable[[bytes, Path], object]

GENTLY, WHOLE = 400, 100_000
HOSTILE = [
    b"", b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\\ud800", b"\\u0000", b"[" * 200, b'{"":' * 200, b"1e999", b"-1",
    b"NaN", b"9" * 5000, b'"', b"\\", b"@", b"%00", b"[::1]", b"\xe2\x80\xae", b"\x7f" + b"\xff" * 7, b"\xff" * 8,
]  # fmt: skip


def tensors() -> bytes:
    header = b'{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"__metadata__":{"format":"pt"}}'
    return len(header).to_bytes(8, "little") + header + bytes(16)


def gguf() -> bytes:
    def text(said: bytes) -> bytes:
        return struct.pack("<Q", len(said)) + said

    values = text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama")
    values += text(b"llama.context_length") + struct.pack("<II", 4, 2048)
    values += text(b"tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text(b"a") + text(b"b")
    tensor = text(b"token_embd.weight") + struct.pack("<IQQIQ", 2, 4, 4, 0, 0)
    return b"GGUF" + struct.pack("<IQQ", 3, 1, 3) + values + tensor + bytes(128)


def in_a_file(read: Callable[[Path], object]) -> Reader:
    def reader(data: bytes, folder: Path) -> object:
        file = folder / "model"
        file.write_bytes(data)
        return read(file)

    return reader


FRAME = (
    b'{"type":"inference","id":"a","model":"m","messages":[{"role":"user","content":"hello"}],"max_tokens":5,'
    b'"temperature":0.5,"stop":["x"],"logit_bias":{"5":1},"response_format":{"type":"json_object"},"stream":true}'
)
BATCH = (
    b'{"model":"m","max_tokens":3,"webhook_url":"https://hooks.example.com/a","requests":[{"id":"1","prompt":"a"},'
    b'{"id":"2","prompt":"b","temperature":1.5,"stop":["end"],"seed":7}]}'
)
READERS: dict[str, tuple[Reader, bytes]] = {
    "a body in JSON": (lambda data, _: parse_json(data), FRAME),
    "a frame of the WebSocket": (lambda data, _: parse_client_message(parse_json(data)), FRAME),
    "a batch": (lambda data, _: parse_batch(data), BATCH),
    "an address of a webhook": (
        lambda data, _: parse_destination(data.decode("utf-8", "replace"), allowlist=frozenset({"shop.example:8000"})),
        b"https://hooks.example.com:443/a/b?c=%20d",
    ),
    "a safetensors header": (in_a_file(read_safetensors_header), tensors()),
    "a GGUF header": (in_a_file(read_gguf_header), gguf()),
}


def mutated(right: bytes, chance: random.Random) -> bytes:
    """One to six changes: bits, bytes, runs of them cut, doubled, moved, or taken for something hostile."""
    data = bytearray(right)
    for _ in range(chance.randint(1, 6)):
        start = chance.randrange(len(data) + 1)
        end = min(len(data), start + chance.choice((0, 1, 2, 4, 8, 64)))
        match chance.randrange(6):
            case 0 if end > start:
                data[start] ^= 1 << chance.randrange(8)
            case 1:
                data[start:end] = chance.randbytes(chance.randrange(9))
            case 2:
                del data[start:end]
            case 3:
                data[start:start] = data[start:end] * chance.randrange(1, 4)
            case 4:
                data[start:end] = chance.choice(HOSTILE)
            case _:
                data = data[start:] + data[:start] if chance.random() < 0.2 else data[: max(start, 1)]
    return bytes(data)


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", READERS)
def test_x7_a_reader_answers_or_refuses_whatever_it_is_given(name: str, tmp_path: Path, whole: bool):
    read, right = READERS[name]
    read(right, tmp_path)
    chance, refused, answered = random.Random(7), 0, 0
    for _ in range(WHOLE if whole else GENTLY):
        data = mutated(right, chance)
        try:
            read(data, tmp_path)
        except (ApiError, EngineError, InvalidDestination):
            refused += 1
        except Exception as crash:  # what was given is what tells
            pytest.fail(f"{type(crash).__name__}: {crash} at {data!r}")
        else:
            answered += 1
    assert min(refused, answered) > 0
