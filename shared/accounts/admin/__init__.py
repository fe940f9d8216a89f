"""Django admin pages of users and API keys: `users`, `api_keys`, and their forms. Django imports them from here."""

from shared.accounts.admin import api_keys, users

__all__ = ["api_keys", "users"]
