"""openai-agents: a loop with two tools, the first call cut off by the maximum of tokens. Prints it as JSON."""

import asyncio
import json
import os
import sys
from typing import Any, Literal

from agents import (
    Agent,
    ModelBehaviorError,
    ModelSettings,
    OpenAIProvider,
    RunConfig,
    RunHooks,
    Runner,
    Tool,
    function_tool,
)
from openai import AsyncOpenAI

CUT, WHOLE = 44, 200  # maxima of tokens
TEXT = "Write a product description.\nProduct name: Quellmar Stool\nKeywords: oak, low"


@function_tool
def paint(colour: Literal["red", "blue"]) -> str:
    """Paint the stool."""
    return f"painted {colour}"


@function_tool
def count_legs(legs: Literal[3, 4]) -> str:
    """Note how many legs the stool has."""
    return f"{legs} legs"


class NextStep(RunHooks[Any]):
    """Chooses the tool of the next turn, as the model is too small to choose by itself.

    The call of `paint` is repeated with more tokens once it was cut off.
    """

    async def on_tool_end(self, context: Any, agent: Agent[Any], tool: Tool, result: Any) -> None:
        settings = agent.model_settings
        if tool.name == "count_legs":
            settings.tool_choice = "none"
        elif settings.max_tokens == WHOLE:
            settings.tool_choice = "count_legs"
        settings.max_tokens = WHOLE


def describe(item: Any) -> list[object]:
    """Return an item of the run: its type, and what it contains."""
    raw = item.raw_item if isinstance(item.raw_item, dict) else item.raw_item.model_dump()
    if raw["type"] == "function_call":
        return ["call", raw["name"], raw["arguments"]]
    if raw["type"] == "function_call_output":
        return ["output", str(item.output)]
    return [raw["type"], "".join(part["text"] for part in raw["content"])]


async def main(url: str, key: str, *, uses_responses: bool, streams: bool) -> None:
    agent = Agent(
        name="Carpenter",
        instructions="You write product descriptions for an online shop.",
        model="stoa-describer",
        tools=[paint, count_legs],
        model_settings=ModelSettings(tool_choice="paint", max_tokens=CUT, temperature=0),
        reset_tool_choice=False,
    )
    client = AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0)
    provider = OpenAIProvider(openai_client=client, use_responses=uses_responses)
    options: dict[str, Any] = {
        "run_config": RunConfig(model_provider=provider, tracing_disabled=True),
        "hooks": NextStep(),
    }
    told: dict[str, Any] = {"cut": None}
    try:
        result, deltas = await run(agent, [{"role": "user", "content": TEXT}], options, streams=streams)
    except ModelBehaviorError as error:  # what this framework makes of every incomplete response
        told["cut"] = str(error)
        history = await cut_history(client)
        agent.model_settings.max_tokens = WHOLE
        result, deltas = await run(agent, history, options, streams=streams)
    told |= {
        "items": [describe(item) for item in result.new_items],
        "history": [item for item in result.to_input_list() if item.get("type") == "function_call"],
        "final": result.final_output,
        "streamed": "".join(deltas),
        "tokens": result.context_wrapper.usage.total_tokens,
    }
    json.dump(told, sys.stdout)


async def run(agent: Agent[Any], history: Any, options: dict[str, Any], *, streams: bool) -> tuple[Any, list[str]]:
    """Return the result of a run, and the pieces of its text."""
    if not streams:
        return await Runner.run(agent, history, **options), []
    result = Runner.run_streamed(agent, history, **options)
    deltas = [
        event.data.delta
        async for event in result.stream_events()
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"
    ]
    return result, deltas


async def cut_history(client: AsyncOpenAI) -> list[Any]:
    """Return a conversation that ends with a call that was cut off, and with what the program says about it."""
    tool: Any = {"type": "function", "name": paint.name, "parameters": paint.params_json_schema, "strict": True}
    named: Any = {"type": "function", "name": paint.name}
    cut = await client.responses.create(
        model="stoa-describer", input=TEXT, tools=[tool], tool_choice=named, max_output_tokens=CUT, temperature=0
    )
    [call] = [item for item in cut.output if item.type == "function_call"]
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "The call was cut off. Repeat it."}
    return [{"role": "user", "content": TEXT}, call.to_dict(), output]


if __name__ == "__main__":
    api, mode = sys.argv[1:]
    asyncio.run(
        main(
            os.environ["STOA_URL"], os.environ["STOA_KEY"], uses_responses=api == "responses", streams=mode == "stream"
        )
    )
