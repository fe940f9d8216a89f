"""What was decided, by whom, when and about what: written once, never changed. `services.record` is its only writer."""
