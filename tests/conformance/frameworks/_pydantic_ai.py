"""pydantic-ai: text, a stream, and structured outputs, by the Responses API or by chat. Prints the results as JSON."""

import asyncio
import json
import os
import sys
from typing import Literal

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

TEXT = "Write a product description.\nProduct name: Quellmar Kettle\nKeywords: quiet, copper base"


class Stool(BaseModel):
    """A stool."""

    colour: Literal["red", "blue"]
    legs: Literal[3, 4]


async def main(url: str, key: str, api: str) -> None:
    provider = OpenAIProvider(base_url=f"{url}/v1", api_key=key)
    model = (OpenAIResponsesModel if api == "responses" else OpenAIChatModel)("stoa-describer", provider=provider)
    instructions = "You write product descriptions for an online shop."
    agent = Agent(model, instructions=instructions, model_settings={"temperature": 0.0})
    whole = await agent.run(TEXT)
    async with agent.run_stream(TEXT) as stream:
        streamed = "".join([piece async for piece in stream.stream_text(delta=True)])
    followed = await agent.run("Again.", message_history=whole.all_messages(), model_settings={"max_tokens": 5})
    native = await Agent(model, output_type=NativeOutput(Stool)).run(TEXT)
    called = await Agent(model, output_type=ToolOutput(Stool)).run(TEXT)
    told = {
        "text": whole.output,
        "streamed": streamed,
        "followed": followed.output,
        "native": native.output.model_dump(),
        "called": called.output.model_dump(),
        "tokens": [whole.usage.input_tokens, whole.usage.output_tokens],
    }
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main(os.environ["STOA_URL"], os.environ["STOA_KEY"], sys.argv[1]))
