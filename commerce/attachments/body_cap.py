"""How large a body may be: an upload of files is larger than all else."""

from shared.accounts.large_bodies import larger_bodies

body_cap = larger_bodies({("POST", "/api/attachments"): "MAX_UPLOAD_BYTES"})
