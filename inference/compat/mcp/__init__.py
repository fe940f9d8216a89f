"""The Model Context Protocol at /mcp: tools over the model server's services, and its models as resources.

The official SDK reads and writes the protocol. It is imported with the first request, since it takes a second and
20 MiB. Every request stands alone, so any web process answers it.
"""
