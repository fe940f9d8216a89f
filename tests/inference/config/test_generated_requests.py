"""Row I1: what the model server answers to generated requests, sound and broken, is what its OpenAPI page says.

The models are real ones of random weights. The everyday run is short; with `FUZZ_EXAMPLES=60` in the environment it
makes more than ten thousand requests.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.inference.engine.tiny_models import byte_tokenizer, causal_config, save_config, save_encoder
from tests.inference.running_server import RunningServer, running_server

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "5"))
PHASES = "examples,coverage,fuzzing,stateful" if EXAMPLES > 5 else "examples,fuzzing"
# Not promised: that whatever fits the schema is accepted (a prompt over the context fits it), that nothing else is
# (under /v1 what OpenAI's clients send beside it is ignored), and that what was made can be had (nothing is made).
NOT_PROMISED = "positive_data_acceptance,negative_data_rejection,ensure_resource_availability"
BUILTIN = {"stoa-describer": "tiny", "stoa-encoder": "encoder"}  # what examples ask for, and what stands for it here
KNOWN = {
    "regex": {"type": "string", "enum": ["[ab]{1,9}", "(oak|brass) lamp"]},
    "grammar": {"type": "string", "enum": ['start: "a" | "b"']},
    "logit_bias": {"type": "object", "propertyNames": {"enum": ["7", "30"]}, "additionalProperties": {"enum": [-9, 5]}},
    "priority": {"type": "integer", "minimum": -10, "maximum": 0},
}
LONGEST_S = 200 + 30 * EXAMPLES

pytestmark = pytest.mark.timeout(LONGEST_S + 300)


@pytest.fixture(scope="module")
def real() -> Iterator[RunningServer]:
    """A server with a causal model of a short context and an encoder; `spare` is there to be loaded and unloaded."""
    with tempfile.TemporaryDirectory(prefix="stoa") as folder:
        home = Path(folder)
        for name in ("tiny", "spare"):
            config = causal_config("llama", len(byte_tokenizer()))
            config.max_position_embeddings = 128
            save_config(home / "models" / name, config, byte_tokenizer())
        save_encoder(home / "models" / "encoder")
        with running_server(home, home / "run", home / "models", load=["tiny", "encoder"]) as stoa:
            yield stoa


def page_for_these_models(page: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI page with what these models know: names, token ids, a short context. A path's model is one that may
    go. Otherwise nearly all that is generated would be refused, and little tested."""
    page["components"] = narrowed(page["components"])
    for name, component in page["components"]["schemas"].items():
        if "model" in component.get("required", ()) and name.endswith("Request"):
            component["properties"]["model"] = {"type": "string", "enum": ["encoder" if "Embed" in name else "tiny"]}
    for path in page["paths"].values():
        for described in path.values():
            for content in described.get("requestBody", {}).get("content", {}).values():
                for example in content.get("examples", {}).values():
                    if model := BUILTIN.get(example["value"].get("model")):
                        example["value"]["model"] = model
            for parameter in described.get("parameters", ()):
                if parameter["name"] == "model_id":
                    parameter["schema"] = {"type": "string", "enum": ["spare", "nobody"]}
    return page


def narrowed(part: Any) -> Any:
    if isinstance(part, list):
        return [narrowed(inner) for inner in part]
    if not isinstance(part, dict):
        return part
    if part.get("type") == "integer" and part.get("maximum") == 2**31 - 1:
        return part | {"maximum": 30}
    return {name: KNOWN.get(name) or narrowed(inner) for name, inner in part.items()}


@pytest.mark.parametrize("role", ["STAFF"] if EXAMPLES <= 5 else ["STAFF", "SUPER_ADMIN", "CUSTOMER"])
def test_i1_every_generated_request_to_the_model_server_is_answered_as_its_page_says(
    real: RunningServer, role: str, tmp_path: Path
):
    page = tmp_path / "page.json"
    page.write_text(json.dumps(page_for_these_models(httpx2.get(f"{real.url}/openapi.json", timeout=60).json())))
    options = {
        "--url": real.url,
        "--header": f"Authorization: Bearer {real.keys[role]}",
        "--phases": PHASES,
        "--mode": "all",
        "--max-examples": str(EXAMPLES),
        "--checks": "all",
        "--exclude-checks": NOT_PROMISED,
        "--max-response-time": "60",
        "--request-timeout": "120",
        "--seed": "7",
        "--suppress-health-check": "all",
    }
    schemathesis = Path(sys.executable).with_name("st")
    done = subprocess.run(
        [schemathesis, "run", page, "--no-color", "--continue-on-failure", *sum(options.items(), ())],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    told = re.search(r"(\d+) generated, .*", done.stdout)
    print(told[0] if told else done.stdout)
    assert done.returncode == 0, done.stdout[-20_000:]
    assert told
    assert int(told[1]) > 50
    assert "Traceback" not in real.log.read_text()
