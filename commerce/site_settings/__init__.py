"""Settings of the whole shop that its panels and storefronts read at start, in each language, and maintenance mode.

Import `services` to change them.
"""
