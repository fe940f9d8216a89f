"""Orders as a parent and a child a shop, their lines, their states, and refunds."""
