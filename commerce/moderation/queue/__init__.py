"""The moderation queue: listing, search, statistics, and decisions about many cases at once."""
