"""Tests of the documentation: links, sizes, and facts that the code declares."""
