"""The REST API and moderators' admin of a multi-vendor shop."""
