"""Serving of both projects over HTTP and WebSocket, and their background processes.

* `asgi`: wrapper between the server and Django; import `wrapper.wrap`.
* `server`: uvicorn with graceful shutdown; the `serve` command.
* `processes`: child processes, the local Redis server, Celery, periodic tasks.
* `files`: static files, files as response bodies, uploads.
* `db_threads`: database calls from coroutines.
"""
