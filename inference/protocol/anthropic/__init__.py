"""Wire structs of Anthropic's messages."""
