"""Uploads: files that are sent in parts, so that a broken connection costs one part.

* `services`: create, find, fill, complete and cancel an upload. A part is a stored file that nobody sees.
* `views`, `schema`: the routes of /v1/uploads.
"""
