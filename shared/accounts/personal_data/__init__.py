"""Personal data of an account: `rules` per table, `erasure` of a person, and `export` of what is stored about them.

`shared.personal_data` finds RULES and ERASURE_BLOCKERS of every app in its `personal_data` module or package.
"""

from shared.accounts.personal_data.rules import ERASURE_BLOCKERS, RULES

__all__ = ["ERASURE_BLOCKERS", "RULES"]
