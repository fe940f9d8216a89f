"""The commands of `deploy/run`. Standard library only: they run before anything is installed."""
