"""GET /traces, and the store that it reads: spans of a day, written by every web process and worker."""
