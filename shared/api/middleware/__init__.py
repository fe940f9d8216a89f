"""Django middleware of both projects: `errors` returns errors as JSON, `pages` limits session work to HTML pages."""
