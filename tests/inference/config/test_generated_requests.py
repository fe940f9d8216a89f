"""Row I1: the model server answers generated requests, valid and invalid, as its OpenAPI document says.

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
MAX_DURATION_SECONDS = 200 + 30 * EXAMPLES

pytestmark = pytest.mark.timeout(MAX_DURATION_SECONDS + 300)


@pytest.fixture(scope="module")
def real() -> Iterator[RunningServer]:
    """A server with an encoder and a causal model of a short context. `spare` may be loaded and unloaded."""
    with tempfile.TemporaryDirectory(prefix="stoa") as folder:
        home = Path(folder)
        for name in ("tiny", "spare"):
            config = causal_config("llama", len(byte_tokenizer()))
            config.max_position_embeddings = 128
            save_config(home / "models" / name, config, byte_tokenizer())
        save_encoder(home / "models" / "encoder")
        with running_server(home, home / "run", home / "models", load=["tiny", "encoder"]) as stoa:
            yield stoa


def adapt_document(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document with the names, token ids and short context of these models.

    A model in a path is one that may be unloaded. Otherwise nearly all generated requests would be rejected.
    """
    document["components"] = narrow(document["components"])
    for name, component in document["components"]["schemas"].items():
        if "model" in component.get("required", ()) and name.endswith("Request"):
            component["properties"]["model"] = {
                "type": "string",
                "enum": ["tiny" if re.match("(?!.*Embed)(?!Rerank)(?!Score)", name) else "encoder"],
            }
    for path in document["paths"].values():
        for described in path.values():
            for content in described.get("requestBody", {}).get("content", {}).values():
                for example in content.get("examples", {}).values():
                    if model := BUILTIN.get(example["value"].get("model")):
                        example["value"]["model"] = model
            for parameter in described.get("parameters", ()):
                if parameter["name"] == "model_id":
                    parameter["schema"] = {"type": "string", "enum": ["spare", "nobody"]}
    return document


def narrow(part: Any) -> Any:
    if isinstance(part, list):
        return [narrow(inner) for inner in part]
    if not isinstance(part, dict):
        return part
    if "integer" in part.get("type", ()) and part.get("maximum") == 2**31 - 1:
        return part | {"maximum": 30}
    return {
        name: KNOWN[name] if name in KNOWN and isinstance(inner, dict) else narrow(inner)
        for name, inner in part.items()
    }


@pytest.mark.parametrize("role", ["STAFF"] if EXAMPLES <= 5 else ["STAFF", "SUPER_ADMIN", "CUSTOMER"])
def test_i1_every_generated_request_is_answered_as_the_openapi_document_says(
    real: RunningServer, role: str, tmp_path: Path
):
    document = tmp_path / "document.json"
    document.write_text(json.dumps(adapt_document(httpx2.get(f"{real.url}/openapi.json", timeout=60).json())))
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
    result = subprocess.run(
        [schemathesis, "run", document, "--no-color", "--continue-on-failure", *sum(options.items(), ())],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=MAX_DURATION_SECONDS,
        check=False,
    )
    summary = re.search(r"(\d+) generated, .*", result.stdout)
    print(summary[0] if summary else result.stdout)
    assert result.returncode == 0, result.stdout[-20_000:]
    assert summary
    assert int(summary[1]) > 50
    assert "Traceback" not in real.log.read_text()
