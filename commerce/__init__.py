"""REST API and admin of a multi-vendor store. Each app is a package; `config` has settings and routes."""
