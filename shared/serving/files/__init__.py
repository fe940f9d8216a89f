"""Files over HTTP: `static_files`, `file_chunks` as response bodies, and the `upload_handler` of forms."""
