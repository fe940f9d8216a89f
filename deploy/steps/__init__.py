"""What `deploy/run` does, a module a matter. Standard library only: it runs before anything is installed."""
