"""The OpenAPI document of the model server.

`operations` makes it from what each `operation` declares and from the wire structs of `inference.protocol`. Each app's
`schema.py` has the texts and examples of its operations, and `common_texts` has what all of them share.
"""
