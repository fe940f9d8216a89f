"""Uploaded files: checked by content, images re-encoded and resized, served under /media.

Other apps import `models.Attachment`, `serializers` (an attachment within another record) and `services`.
"""
