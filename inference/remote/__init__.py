"""Models that another OpenAI-compatible server runs.

`configuration` reads STOA_REMOTE_MODELS; `client.RemoteClient` sends requests as the engine's `EngineClient` does.
"""
