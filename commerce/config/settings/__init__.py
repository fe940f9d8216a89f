"""Settings modules: `base` for one machine on the loopback interface, `dev`, `test` and `production`."""
