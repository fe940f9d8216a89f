"""Stored streams: the events of a stream as rows, so that any web process can send them again, or the rest of them.

Other packages import `recorder` (write a stream), `reader` (send one), `services` and `models`.
"""
