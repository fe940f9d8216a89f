"""Text generation, whole and streamed, on the native routes and on the OpenAI-compatible ones."""
