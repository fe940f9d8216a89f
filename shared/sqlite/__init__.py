"""Django's SQLite, in which whoever wants to write is not forgotten: `ENGINE = "shared.sqlite"`."""
