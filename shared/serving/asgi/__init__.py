"""ASGI layer between the server and Django: `wrapper.wrap` puts a project's application behind it.

In the order in which a request passes: `request_checks`, `bodies`, `threads`, and back: `responses`, `metrics`.
`websockets` does the same for WebSocket connections; `types` has the types of ASGI 3.
"""
