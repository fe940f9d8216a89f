"""Tokenizer, detokenizer, chat templates, reasoning and tool calls of a model. Importing it imports transformers."""

from inference.engine.text.detokenizer import TextStream
from inference.engine.text.reasoning import ReasoningParser
from inference.engine.text.tokenizer import EncodedText, Tokenizer, load_tokenizer
from inference.engine.text.tool_calls import ToolUse, check_tools, grammar, schema_length
from inference.engine.text.tool_parser import ToolParser

__all__ = [
    "EncodedText",
    "ReasoningParser",
    "TextStream",
    "Tokenizer",
    "ToolParser",
    "ToolUse",
    "check_tools",
    "grammar",
    "load_tokenizer",
    "schema_length",
]
