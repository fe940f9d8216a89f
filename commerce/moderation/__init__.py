"""Moderation: abuse reports, the queue of cases, moderators' decisions, notices to users, and appeals."""
