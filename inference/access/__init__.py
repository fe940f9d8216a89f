"""The gate of every route: who may, what comes in, which version; and signing in. `operation` makes a view."""
