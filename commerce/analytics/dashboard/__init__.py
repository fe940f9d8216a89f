"""The analytics dashboard: an admin page for shop owners, their staff and super admins.

`urls` routes to `views`, which `access` protects. `data` reads the report, `periods` and `charts` lay it out, `panels`
prepares it for the templates, `csv_export` writes the tables as files.
"""
