"""Image processing: checks, re-encoding and smaller copies. Imports no Django.

Other packages import `limits`, `sizes` and `worker_client`, which decodes images in a child process. `processing` and
`worker` run in that process only.
"""
