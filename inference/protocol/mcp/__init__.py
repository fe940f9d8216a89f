"""Wire structs of /mcp: JSON-RPC messages and errors, and the arguments and results of the tools."""
