"""Wire forms: what comes in and goes out, for the native routes and the OpenAI-compatible ones. No Django in here."""
