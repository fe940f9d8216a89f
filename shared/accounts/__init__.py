"""Who is asking, and what may they do: users, roles, API keys, sign-ins, for every transport of both projects.

Import `services` to write, `authentication` to learn who a credential speaks for, `permissions` in DRF views and
`roles` for what a role may do.
"""
