"""Wire structs of the native routes and of /ws, one module per resource."""
