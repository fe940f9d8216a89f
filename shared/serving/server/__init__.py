"""The uvicorn server with graceful shutdown: `uvicorn_server.serve`, its HTTP and WebSocket protocols, its memory."""
