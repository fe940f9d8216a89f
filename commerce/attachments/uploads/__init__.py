"""Checks and preparation of uploaded files, before anything is stored. Touches neither the database nor the storage.

Other modules import `preparation`, which uses the rest: file types, file names, archives and the virus scanner.
"""
