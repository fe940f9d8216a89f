"""The engines themselves, vLLM and llama.cpp, where `stoa engines install` has installed them."""

import asyncio
import json
from functools import partial
from pathlib import Path

import pytest

from inference.engine import (
    ConstraintKind,
    FinishReason,
    GenerationOutput,
    GenerationRequest,
    LoadOptions,
    OutputConstraint,
    SamplingParams,
)
from inference.engine.external import ENGINE_KINDS, list_engines
from tests.benchmarks.inference._engines import configurations, save_random
from tests.inference.engine.gguf_files import save_gguf
from tests.inference.engine.processes import (
    REPOSITORY,
    RunningHost,
    descendants,
    process_exists,
    read,
    running_host,
    start_program,
)

ENGINES = REPOSITORY / "var" / "engines"
INSTALLED = {engine.name for engine in list_engines(ENGINES) if engine.installed}
SCHEMA = {"type": "object", "properties": {"sizes": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3}},
          "required": ["sizes"], "additionalProperties": False}  # fmt: skip


@pytest.mark.engines
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", [kind for kind in ENGINE_KINDS if kind != "sglang"])
async def test_an_installed_engine_generates_as_ours_does(kind: str, tmp_path: Path) -> None:
    if kind not in INSTALLED:
        pytest.skip(f"`stoa engines install {kind}` installs it")
    model = save_random(tmp_path / "model", configurations()["tiny"])
    if kind == "llama.cpp":
        model = save_gguf(model, tmp_path / "model.gguf")
    options = {"vllm": (("enforce_eager", True),), "llama.cpp": (("threads", 2),)}[kind]
    with running_host(partial(start_host, ENGINES)) as host:
        wanted = LoadOptions(engine=kind, context_size=128, max_sequences=4, engine_options=options)
        await host.commands.load("one", model, wanted)
        for number in range(4):  # one after the other
            outputs = await generate(host, f"c{number}", sampling={"max_tokens": 3, "ignore_eos": True})
            assert outputs[-1].error is None
        outputs = await generate(host, "a", sampling={"max_tokens": 9, "logprobs": 2, "ignore_eos": True})
        assert outputs[-1].finish_reason is FinishReason.LENGTH
        assert outputs[-1].usage is not None
        tokens = outputs[-1].usage.completion_tokens
        assert 0 < tokens <= 9 if kind == "llama.cpp" else tokens == 9  # it leaves out those of an incomplete character
        assert {len(one.top) for output in outputs for one in output.logprobs} == {2}

        schema = OutputConstraint(ConstraintKind.JSON_SCHEMA, json.dumps(SCHEMA))
        texts = await asyncio.gather(
            *(generate(host, f"b{seed}", sampling={"constraint": schema, "seed": seed}) for seed in range(6))
        )
        for outputs in texts:  # random weights may write spaces to the limit
            text = text_of(outputs)
            assert text.lstrip().startswith("{")
            if outputs[-1].finish_reason is FinishReason.STOP:
                assert json.loads(text).keys() == {"sizes"}
        whole = {"seed": 1, "max_tokens": 40, "ignore_eos": True}
        text = text_of(await generate(host, "s", sampling=whole))
        letter = next(character for character in text if character.isalpha() and character.isascii())
        stopped = await generate(host, "s", sampling=whole | {"stop": (letter,)})
        assert text_of(stopped) == text[: text.index(letter)]
        assert stopped[-1].finish_reason is FinishReason.STOP
        alternatives = await generate(host, "n", sampling={"max_tokens": 5, "ignore_eos": True}, n=3)
        ended = [output.choice for output in alternatives if output.finish_reason is FinishReason.LENGTH]
        assert sorted(ended) == [0, 1, 2]
        many = await asyncio.gather(*(generate(host, f"m{number}", sampling=whole) for number in range(12)))
        assert [outputs[-1].finish_reason for outputs in many] == [FinishReason.LENGTH] * 12
        assert all(map(text_of, many))
        await host.engine.close()
        started = descendants(host.process.pid)
        await host.commands.unload("one")
        host.process.kill()
        await asyncio.sleep(5)
        assert not list(filter(process_exists, started))


def start_host(engines: Path, run_dir: Path):
    program = "from inference.engine.host.__main__ import main; main()"
    return start_program(program, "--run-dir", str(run_dir), "--engines-dir", str(engines))


async def generate(host: RunningHost, name: str, *, sampling: dict[str, object], n: int = 1) -> list[GenerationOutput]:
    parameters = SamplingParams(**({"max_tokens": 60, "temperature": 0.7} | sampling))
    request = GenerationRequest(request_id=name, prompt=f"Sizes as JSON, {name}:", sampling=parameters, n=n)
    return await read(await host.engine.generate("one", request))


def text_of(outputs: list[GenerationOutput]) -> str:
    return "".join(output.text for output in outputs)
