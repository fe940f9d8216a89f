"""Files that people upload: checked by content, images re-encoded, with thumbnails."""
