"""Checks of a sign-in beside the password: the second factor, and the networks that the user has signed in from."""
