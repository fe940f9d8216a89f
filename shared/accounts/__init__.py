"""Users, roles, credentials and sign-ins, for every transport of both projects.

Import `services` to write, `authentication` to verify a credential, `permissions` in DRF views and `roles` for the
permissions of a role.
"""
