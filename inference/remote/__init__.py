"""Models that another OpenAI-compatible server runs, used like our own.

`configuration` reads STOA_REMOTE_MODELS; `client` has RemoteClient, which asks them as EngineClient asks ours.
"""
