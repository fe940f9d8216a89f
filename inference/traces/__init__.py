"""GET /traces and its store: the spans of one day, which every web process and worker exports."""
