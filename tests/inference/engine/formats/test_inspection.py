"""Inspection of models on disk, and memory estimates."""

import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from inference.engine import LoadOptions, ModelLoadFailed, ModelMetadata, fingerprint, inspect_model
from inference.engine.external import ENGINE_KINDS, ENGINES_VARIABLE
from inference.engine.formats.model_folder import check_digests
from inference.engine.formats.safetensors_header import MAX_HEADER_BYTES, read_safetensors_header
from inference.engine.host import memory_estimate
from inference.engine.host.memory_estimate import estimate_memory
from tests.inference.engine.gguf_files import save_gguf
from tests.inference.engine.processes import running_host, start_real_host
from tests.inference.engine.tiny_models import CONTEXT

BUILTIN = Path(__file__).parents[4] / "inference" / "builtin"
DESCRIBER, ENCODER = BUILTIN / "stoa-describer", BUILTIN / "stoa-encoder"


def write_header(file: Path, header: object, data: bytes = b"") -> Path:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    file.write_bytes(len(raw).to_bytes(8, "little") + raw + data)
    return file


def tensor(shape: list[int], begin: int, end: int, dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def test_a_header_gives_the_count_of_numbers_by_type(tmp_path: Path) -> None:
    header = {"__metadata__": {"format": "pt"}, "a": tensor([2, 3], 0, 24), "b": tensor([4], 24, 32, "BF16")}
    found = read_safetensors_header(write_header(tmp_path / "m.safetensors", header, b"\0" * 32))
    assert (found.parameters, found.dtypes) == (10, {"F32": 6, "BF16": 4})


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        (b"{", "damaged"),
        (b"[]", "damaged"),
        (b'{"a": 1}', "damaged"),
        (b'{"a": ' * 100_000, "damaged"),
        (b'{"\xff": 1}', "damaged"),
        ({"a": tensor([3], 0, 8)}, "does not hold"),
        ({"a": tensor([2], 0, 9)}, "does not hold"),
        ({"a": tensor([2], -8, 0)}, "does not hold"),
        ({"a": tensor([-2, -1], 0, 8)}, "does not hold"),
        ({"a": tensor([1] * 17 + [2], 0, 8)}, "does not hold"),
        ({"a": tensor([2**62, 2**62], 0, 8)}, "does not hold"),
        ({"a": tensor([1], 0, 8, "PICKLE")}, "does not hold"),
    ],
    ids=["open", "list", "number", "deep", "bytes", "short", "odd", "before", "negative", "many", "huge", "strange"],
)
def test_a_damaged_or_wrong_header_is_rejected(tmp_path: Path, header: object, reason: str) -> None:
    with pytest.raises(ModelLoadFailed, match=rf"^m\.safetensors .*{reason}"):
        read_safetensors_header(write_header(tmp_path / "m.safetensors", header, b"\0" * 8))


@pytest.mark.parametrize("content", [b"", b"\0" * 7, (9).to_bytes(8, "little") + b"{}"])
def test_a_file_shorter_than_its_header_is_rejected(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.safetensors").write_bytes(content)
    with pytest.raises(ModelLoadFailed, match="cut off"):
        read_safetensors_header(tmp_path / "m.safetensors")


def test_a_header_over_the_size_limit_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "m.safetensors").open("wb") as file:
        file.write((MAX_HEADER_BYTES + 1).to_bytes(8, "little"))
        file.truncate(2 * MAX_HEADER_BYTES)
    with pytest.raises(ModelLoadFailed, match="header of 33554433 bytes"):
        read_safetensors_header(tmp_path / "m.safetensors")


def test_metadata_of_a_causal_model_and_of_an_encoder() -> None:
    facts = inspect_model(DESCRIBER)
    assert (facts.format, facts.context_size, facts.capabilities) == ("safetensors", 1024, ("text-generation",))
    assert (facts.parameters, facts.dtype, facts.quantization) == (3737856, "bfloat16", "none")
    assert facts.size_bytes == (DESCRIBER / "model.safetensors").stat().st_size
    assert facts.cache_values == 2 * 4 * 4 * 32
    facts = inspect_model(ENCODER)
    assert (facts.capabilities, facts.cache_values) == (("embeddings",), 0)


def test_an_encoder_decoder_is_rejected(tmp_path: Path) -> None:
    shutil.copytree(DESCRIBER, tmp_path / "m")
    config = json.loads((tmp_path / "m" / "config.json").read_text()) | {"is_encoder_decoder": True}
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelLoadFailed, match="Encoder-decoder"):
        inspect_model(tmp_path / "m")


def test_a_fingerprint_changes_only_with_the_files_that_a_load_reads(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    before = fingerprint(tmp_path)
    (tmp_path / "notes.md").write_text("hello")
    assert fingerprint(tmp_path) == before
    (tmp_path / "config.json").write_text("{ }")
    assert fingerprint(tmp_path) != before
    assert fingerprint(tmp_path / "nothing") == ()


def test_the_digests_of_a_folder_are_checked(tmp_path: Path) -> None:
    check_digests(tmp_path)
    (tmp_path / "a").write_bytes(b"abc")
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    for line in (f"{digest}  a\n", f"{digest.upper()} *a\n"):
        (tmp_path / "SHA256SUMS").write_text(line)
        check_digests(tmp_path)
    for line, reason in (
        (f"{'0' * 64}  a", "does not match its digest"),
        (f"{digest}  ../a", "names files"),
        ("nonsense", "names files"),
    ):
        (tmp_path / "SHA256SUMS").write_text(line)
        with pytest.raises(ModelLoadFailed, match=reason):
            check_digests(tmp_path)


def test_an_estimate_is_limited_to_the_range_of_a_frame(tmp_path: Path) -> None:
    claims = {"num_hidden_layers": 2**30, "num_attention_heads": 2**30, "head_dim": 2**30}
    config = {"architectures": ["LlamaForCausalLM"], "max_position_embeddings": 2**30} | claims
    (tmp_path / "config.json").write_text(json.dumps(config))
    header = json.dumps({"weight": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))

    assert estimate_memory(tmp_path, LoadOptions()).total_bytes == 2**63 - 1


METADATA = ModelMetadata(
    format="gguf",
    architecture="LlamaForCausalLM",
    size_bytes=600,
    context_size=10,
    capabilities=("text-generation",),
    parameters=1000,
    dtype="float32",
    quantization="Q4_K_M",
    cache_values=1,
)


@pytest.mark.parametrize(
    ("changes", "options", "is_built", "expected"),
    [
        ({}, {}, True, 600 + 20),
        ({}, {}, False, 4000 + 40),
        ({}, {"gpu_layers": 1}, True, 4000 + 40),
        ({"architecture": ""}, {}, True, 4000 + 40),
        ({"quantization": "Q2_K"}, {}, True, 4000 + 40),
        ({}, {"quantization": "int8"}, True, 1100 + 20),
        ({}, {"quantization": "int8"}, False, 1100 + 40),
        ({}, {"quantization": "int4"}, True, 600 + 20),
        ({"quantization": "F16"}, {"quantization": "int4"}, True, 750 + 20),
        ({"quantization": "Q2_K"}, {"quantization": "int4"}, True, 750 + 20),
        ({}, {"quantization": "int4"}, False, 1100 + 40),
        ({"capabilities": ("rerank",), "cache_values": 0, "embedding_values": 400}, {}, True, 4000),
        (
            {"capabilities": ("rerank",), "cache_values": 0, "embedding_values": 400},
            {"quantization": "int8"},
            True,
            1600 + 660,
        ),
        ({"format": "safetensors", "dtype": "bfloat16"}, {}, True, 2000 + 40),
        ({"format": "safetensors", "dtype": "bfloat16"}, {}, False, 4000 + 40),
        ({"format": "safetensors", "dtype": "bfloat16", "architecture": ""}, {}, True, 4000 + 40),
    ],
)
def test_only_loads_that_use_compiled_kernels_are_estimated_in_the_files_types(
    changes: dict[str, Any],
    options: dict[str, Any],
    is_built: bool,
    expected: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    metadata = msgspec.structs.replace(METADATA, **changes)
    monkeypatch.setattr(memory_estimate, "inspect_model", lambda path: metadata)
    monkeypatch.setattr(memory_estimate, "kernels_built", lambda: is_built)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert estimate_memory(tmp_path, LoadOptions(max_sequences=1, **options)).total_bytes == expected


GIB = 2**30
RECORDS = {"by Stoa": '{"packages": ["one==1"]}', "by hand": ""}


@pytest.mark.parametrize(
    ("options", "installed", "gpus", "total", "load"),
    [
        ({}, None, "0", 4000 + 40, 4000),
        ({"gpu_layers": 1}, None, "", 4000 + 40, 4000),
        ({"gpu_layers": 1}, None, "0", 3000 + 30, 3000),
        ({"gpu_layers": 99}, None, "0", 0, 0),
        ({"engine": "llama.cpp"}, "by hand", "0", GIB // 4 + 600 + 20, GIB // 4 + 20),
        ({"engine": "llama.cpp", "gpu_layers": 1}, "by hand", "0", GIB // 4 + 450 + 15, GIB // 4 + 15),
        ({"engine": "llama.cpp", "gpu_layers": 99}, "by Stoa", "0", GIB // 4 + 600 + 20, GIB // 4 + 20),
        ({"engine": "vllm"}, "by Stoa", "0", 3 * GIB + 600, 2 * GIB + 600),
        ({"engine": "vllm"}, "by hand", "", 3 * GIB + 600, 2 * GIB + 600),
        ({"engine": "vllm"}, "by hand", "0", 2 * GIB, 2 * GIB),
        ({"engine": "sglang"}, "by hand", "", 2 * GIB, 2 * GIB),
    ],
)
def test_what_is_on_a_gpu_takes_no_memory_of_the_host(
    options: dict[str, Any],
    installed: str | None,
    gpus: str,
    total: int,
    load: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A model of 1000 parameters in four layers, with a cache of ten values."""
    is_gguf = options.get("engine") != "vllm"
    metadata = msgspec.structs.replace(METADATA, layers=4, format="gguf" if is_gguf else "safetensors")
    monkeypatch.setattr(memory_estimate, "inspect_model", lambda path: metadata)
    monkeypatch.setattr(memory_estimate, "kernels_built", lambda: False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", gpus)
    monkeypatch.setenv(ENGINES_VARIABLE, str(tmp_path))
    if installed:
        kind = ENGINE_KINDS[options["engine"]]
        folder = tmp_path / f"{kind.name}-{kind.version}"
        folder.mkdir()
        (folder / "installed.json").write_text(RECORDS[installed])
    estimate = estimate_memory(tmp_path, LoadOptions(max_sequences=1, **options))
    assert (estimate.total_bytes, estimate.load_bytes) == (total, load)


def test_the_architectures_of_own_decoders_are_known(causal_folders: dict[str, Path], tmp_path: Path) -> None:
    found = {family: inspect_model(folder).architecture for family, folder in causal_folders.items()}
    assert found["llama"] == "LlamaForCausalLM"
    assert found["gpt2"] == ""
    assert inspect_model(save_gguf(causal_folders["llama"], tmp_path / "one.gguf")).architecture == "LlamaForCausalLM"


async def test_the_memory_estimate_is_close(causal_folders: dict[str, Path]) -> None:
    """For the budget it is enough to be near: what it came to is known afterwards."""
    cases = [
        (folder, options)
        for folder in (*causal_folders.values(), DESCRIBER)
        for options in (
            LoadOptions(),
            LoadOptions(context_size=10 * CONTEXT),
            LoadOptions(max_sequences=2, context_size=CONTEXT // 2),
        )
    ]
    cases += [(DESCRIBER, LoadOptions(quantization=quantization)) for quantization in ("int8", "int4")]
    cases += [(ENCODER, LoadOptions()), (ENCODER, LoadOptions(quantization="int8"))]
    with running_host(start_real_host) as host:
        for number, (folder, options) in enumerate(cases):
            report = await host.commands.load(str(number), folder, options)
            assert 0.5 < estimate_memory(folder, options).total_bytes / report.memory_usage_bytes < 2, (folder, options)
            await host.commands.unload(str(number))
