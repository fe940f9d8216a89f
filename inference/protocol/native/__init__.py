"""Wire forms of the native routes and of /ws: one module a resource."""
