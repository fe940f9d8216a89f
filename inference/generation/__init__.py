"""Text generation, whole and streamed: native routes, OpenAI-compatible routes and the WebSocket."""
