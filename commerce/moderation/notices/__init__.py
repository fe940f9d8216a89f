"""Notices to authors and reporters: created with a decision (`creation`), e-mailed once it is final (`delivery`)."""
