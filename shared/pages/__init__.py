"""Pages that both servers have, under one header that links them: the landing page and the API's documentation.

* `links`: the header's links, which the admins' sidebars show too.
* `landing`, `docs`: views of the two pages.
* `templatetags.pages`: the header itself, `{% site_header %}`.
"""
