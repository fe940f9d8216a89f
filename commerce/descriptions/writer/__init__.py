"""Data of the description writer on the product form: proposed keywords, and drafts with marks."""
