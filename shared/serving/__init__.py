"""How a project meets its clients: the ASGI wrapper in front of Django, the server with its drain, the Valkey child."""
