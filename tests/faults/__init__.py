"""What is killed, filled, locked or flooded, and must hold all the same."""
