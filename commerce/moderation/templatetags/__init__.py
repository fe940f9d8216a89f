"""Template filters of moderation."""
