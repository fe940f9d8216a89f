"""Attributes in which a shop's products differ, such as color, with their values in several languages.

Import `services` to write single attributes, `importers` and `csv_files` for a shop's attributes as a CSV file.
"""
