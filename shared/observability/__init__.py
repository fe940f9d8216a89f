"""What a running server says about itself: request ids, logs, health, metrics, traces."""
