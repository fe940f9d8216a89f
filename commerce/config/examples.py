"""An example for every operation of the OpenAPI page: what is sent, and what is answered.

They were recorded from real requests; a test keeps them complete, and in the form of what is answered today.
"""

import json
from pathlib import Path
from typing import Any

# What is streamed was not recorded.
STREAMED = """data: {"text": "The Velmo"}

data: {"text": " lamp glows."}

data: {"done": true, "description": "The Velmo lamp glows."}

"""
RECORDED = Path(__file__).with_name("examples.json")


def add_examples(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """A drf-spectacular post-processing hook: puts them where an operation has none of its own."""
    recorded: dict[str, dict[str, Any]] = json.loads(RECORDED.read_text())
    for operations in result["paths"].values():
        for operation in operations.values():
            example = recorded.get(operation["operationId"], {})
            if "sent" in example:
                _put(operation.get("requestBody", {}), example["sent"])
            for status, answer in operation["responses"].items():
                if status.startswith("2") and "answered" in example:
                    _put(answer, example["answered"])
    return result


def _put(described: dict[str, Any], value: Any) -> None:
    for kind, content in described.get("content", {}).items():
        if not {"example", "examples"} & content.keys():
            content["example"] = STREAMED if kind == "text/event-stream" else value
