"""The commands of the command line, a module each. `inference.cli.app` registers them."""
