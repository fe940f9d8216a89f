"""Wire structs of the OpenAI-compatible routes under /v1, one module per resource."""
