"""The inference project's settings, routes and server entry point."""
