"""litellm: completions, streams, tools, responses and embeddings. Prints the results as JSON."""

import json
import os
import sys
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it fetches prices otherwise

import litellm

litellm.suppress_debug_info = True
TEXT = "Write a product description.\nProduct name: Quellmar Kettle\nKeywords: quiet, copper base"
SCHEMA = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}},
    "required": ["colour"],
    "additionalProperties": False,
}


def main(url: str, key: str) -> None:
    options: dict[str, Any] = {"model": "openai/stoa-describer", "api_base": f"{url}/v1", "api_key": key}
    asked: dict[str, Any] = options | {"messages": [{"role": "user", "content": TEXT}], "temperature": 0}
    whole: Any = litellm.completion(**asked)
    chunks: Any = litellm.completion(**asked, stream=True)
    tool = {"name": "paint", "description": "Paints", "parameters": SCHEMA}
    called: Any = litellm.completion(
        **asked,
        tools=[{"type": "function", "function": tool}],
        tool_choice={"type": "function", "function": {"name": "paint"}},
    )
    response: Any = litellm.responses(**options, input=TEXT, temperature=0)
    events: Any = litellm.responses(**options, input=TEXT, temperature=0, stream=True)
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    again: Any = litellm.get_responses(
        response.id, api_base=options["api_base"], api_key=key, custom_llm_provider="openai"
    )
    told = {
        "text": whole.choices[0].message.content,
        "streamed": "".join(chunk.choices[0].delta.content or "" for chunk in chunks),
        "arguments": called.choices[0].message.tool_calls[0].function.arguments,
        "response": response.output[0].content[0].text,
        "response_streamed": "".join(deltas),
        "retrieved": again.output[0].content[0].text,
        "tokens": whole.usage.total_tokens,
    }
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main(os.environ["STOA_URL"], os.environ["STOA_KEY"])
