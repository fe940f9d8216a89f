"""Reviews and questions: what customers write about products.

Import `models` for querysets, `services` to write, hide and restore, `serializers.serialize_content` to show one
elsewhere, and `moderation_hooks` to register the functions of moderation.
"""
