"""Requests to other OpenAI-compatible servers: their wire form, dialects, errors and health.

`configuration.RemoteModel` is a model at a server, to which `client.RemoteClient` sends requests. `inference.pools`
chooses the server.
"""
