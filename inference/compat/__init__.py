"""APIs that other servers' clients speak: Anthropic's messages and Ollama's. Each can be switched off by a setting.

They translate to the generation service and back, so limits, usage, traces and permissions are those of every route.
"""
