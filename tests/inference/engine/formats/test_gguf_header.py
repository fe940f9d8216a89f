"""The header of a GGUF file is read within limits."""

import struct
from pathlib import Path

import pytest

from inference.engine import ModelLoadFailed
from inference.engine.formats.gguf_header import find_gguf, read_gguf_header
from tests.inference.engine.gguf_files import save_gguf
from tests.inference.engine.tiny_models import byte_tokenizer, save_causal


def text(raw: bytes) -> bytes:
    return struct.pack("<Q", len(raw)) + raw


ARCHITECTURE = text(b"general.architecture") + struct.pack("<I", 8) + text(b"llama")
CONTEXT = text(b"llama.context_length") + struct.pack("<II", 4, 512)


def head(keys: bytes, *, count: int = 2, tensors: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, count) + keys


def test_a_converted_file_has_its_architecture_and_context_in_the_header(tmp_path: Path) -> None:
    file = save_gguf(save_causal(tmp_path / "whole", "llama", byte_tokenizer()), tmp_path / "one.gguf")
    header = read_gguf_header(file)
    assert (header.architecture, header.context_size) == ("llama", 128)
    assert header.values["tokenizer.ggml.eos_token_id"] == 2
    assert "tokenizer.ggml.tokens" not in header.values


HOSTILE = {
    "empty": b"",
    "another format": b"PK\x03\x04" + bytes(100),
    "version 1": head(b"", version=1),
    "a context of 2 to the 64": head(ARCHITECTURE + text(b"llama.context_length") + struct.pack("<IQ", 10, 2**64 - 1)),
    "a context that is true": head(ARCHITECTURE + text(b"llama.context_length") + struct.pack("<I?", 7, True)),
    "a tensor of 2 to the 252 numbers": head(ARCHITECTURE + CONTEXT, tensors=1)
    + text(b"t")
    + struct.pack("<I4QIQ", 4, *[2**63] * 4, 0, 0),
    "cut off": head(ARCHITECTURE + CONTEXT)[:-3],
    "billions of keys": head(ARCHITECTURE, count=2**63),
    "billions of tensors": head(ARCHITECTURE + CONTEXT, tensors=2**63),
    "a text of exabytes": head(struct.pack("<Q", 2**62)),
    "a value of exabytes": head(text(b"key") + struct.pack("<IQ", 8, 2**62)),
    "an array of exabytes": head(text(b"key") + struct.pack("<IIQ", 9, 4, 2**62)),
    "an array of many empty texts": head(text(b"key") + struct.pack("<IIQ", 9, 8, 3_000_000) + bytes(8 * 1000)),
    "an array of arrays": head(text(b"key") + struct.pack("<IIQ", 9, 9, 3)),
    "an array past the end": head(text(b"key") + struct.pack("<IIQ", 9, 4, 1000) + bytes(10)),
    "an unknown kind": head(text(b"key") + struct.pack("<I", 99)),
    "no UTF-8": head(text(b"\xff\xfe") + struct.pack("<II", 4, 1)),
    "no architecture": head(CONTEXT, count=1),
    "no context length": head(ARCHITECTURE, count=1),
    "a context of text": head(ARCHITECTURE + text(b"llama.context_length") + struct.pack("<I", 8) + text(b"512")),
    "a context of nothing": head(ARCHITECTURE + text(b"llama.context_length") + struct.pack("<II", 4, 0)),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_m2_a_false_header_is_rejected_with_a_reason(name: str, tmp_path: Path) -> None:
    file = tmp_path / "evil.gguf"
    file.write_bytes(HOSTILE[name])
    with pytest.raises(ModelLoadFailed, match=r"\.$"):
        read_gguf_header(file)


def test_a_folder_with_config_json_is_no_gguf_model(tmp_path: Path) -> None:
    (tmp_path / "one.gguf").write_bytes(head(ARCHITECTURE + CONTEXT))
    assert find_gguf(tmp_path) == find_gguf(tmp_path / "one.gguf") == tmp_path / "one.gguf"
    (tmp_path / "config.json").write_text("{}")
    assert find_gguf(tmp_path) is None
