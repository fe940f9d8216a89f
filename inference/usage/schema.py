"""OpenAPI texts and examples of the routes."""

from inference.access.docs import OperationDocs

USAGE = OperationDocs(
    summary="What you have used, and what is left of your limits",
    description="""
    Of your user; of the key alone, where it carries a few named permissions only. The limits are the key's that
    you send, and your user's where the key counts for it.
    """,
)
