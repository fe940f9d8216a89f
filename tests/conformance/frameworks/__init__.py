"""Quick-starts of frameworks, run in a virtual environment of their own, which `deploy/run test` prepares."""
