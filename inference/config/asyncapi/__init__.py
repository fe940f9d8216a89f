"""The AsyncAPI document of the WebSocket.

`document` makes it from the structs of `inference.protocol.native.websocket`, and `texts` has its sentences and
examples.
"""
