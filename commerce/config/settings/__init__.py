"""`base` for one machine on loopback, `dev` and `test` on it, `production` for a server that others reach."""
