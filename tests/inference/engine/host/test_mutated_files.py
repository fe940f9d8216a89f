"""Model files with bytes changed, cut off or made absurd load, or are rejected with a reason, in bounded memory."""

import random
import resource
from pathlib import Path

import pytest

from inference.engine.errors import EngineError
from inference.engine.host.loading import load_model
from inference.engine.host.memory_estimate import estimate_memory
from inference.engine.model_status import LoadOptions
from tests.inference.engine.gguf_files import save_gguf
from tests.inference.engine.tiny_models import byte_tokenizer, causal_config, save_config

BUDGET = 256 * 2**20
HEADER = 4096  # most fields are here; changed weights are only other weights
OPTIONS = LoadOptions(context_size=32, max_sequences=1)
EXTREMES = (b"\0" * 8, b"\xff" * 8, b"\x7f" + b"\xff" * 7, (2**31).to_bytes(8, "little"), (2**62).to_bytes(8, "little"))


def mutate(content: bytes, chance: random.Random) -> bytes:
    """Return the bytes with one to four places changed: cut off, removed, repeated, made random or extreme."""
    changed = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(min(len(changed), chance.choice([HEADER, len(changed)])) or 1)
        length = chance.choice([1, 4, 8, 100])
        match chance.randrange(6):
            case 0:
                del changed[place:]
            case 1:
                del changed[place : place + length]
            case 2:
                changed[place:place] = changed[place : place + length]
            case 3:
                changed[place : place + 8] = chance.choice(EXTREMES)
            case 4:
                changed[place : place + 1] = bytes([chance.randrange(256)])
            case 5:
                changed[place : place + length] = chance.randbytes(length)
    return bytes(changed)


@pytest.mark.parametrize("name", ["Q8_0.gguf", "F32.gguf", "model.safetensors", "config.json", "tokenizer.json"])
def test_m2_mutated_files_load_or_are_rejected_with_a_reason(tmp_path: Path, name: str, whole: bool) -> None:
    config = causal_config("llama", len(byte_tokenizer()))
    config.intermediate_size = 64  # whole blocks
    folder = save_config(tmp_path / "folder", config, byte_tokenizer())
    if name.endswith(".gguf"):
        source, folder = folder, tmp_path / "model"
        folder.mkdir()
        save_gguf(source, folder / name, name.removesuffix(".gguf"))
    content = (folder / name).read_bytes()
    load_model("tiny", folder, OPTIONS, lambda outputs: None)
    before, loaded = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0
    reasons: list[str] = []
    for seed in range(200 if whole else 20):
        (folder / name).write_bytes(mutate(content, random.Random(seed)))
        try:
            if estimate_memory(folder, OPTIONS).total_bytes <= BUDGET:  # more is what the host rejects
                load_model("tiny", folder, OPTIONS, lambda outputs: None)
                loaded += 1
        except EngineError as error:
            reasons.append(error.message)
        except BaseException as error:
            error.add_note(f"{name}, seed {seed}")
            raise
    print(f"{name}: {loaded} loaded, {len(reasons)} rejected")
    assert all(reason.strip() for reason in reasons)
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < BUDGET
