"""The OpenAPI document of the shop.

`auto_schema` describes a view, each app's `schema.py` has the texts of its operations, and the hooks in
`common_texts`, `error_responses` and `examples` complete the whole document.
"""
