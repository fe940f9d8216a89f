"""The commerce project's settings, routes and server entry point."""
