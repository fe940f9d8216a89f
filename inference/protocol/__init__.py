"""Wire structs: what the native and the OpenAI-compatible routes receive and send.

It imports no Django. Bounds of generation parameters come from the declarations of `inference.engine`.
"""
