"""Wire forms of the routes under /v1, as OpenAI's clients send and read them: one module a resource."""
