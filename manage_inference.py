#!/usr/bin/env python
"""The command line of the inference project: its own verbs, and Django's."""

from inference.cli import main

if __name__ == "__main__":
    main()
