"""Wire structs of Ollama's API."""
