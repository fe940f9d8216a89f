"""Serving of the stored files under /media. The project's routes include `urls`."""
