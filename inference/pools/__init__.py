"""Pools: remote models, each run by one or more members, which are models of OpenAI-compatible servers.

Members are rows of the database, written by `services`. `cache` has the pools as this process last read them; `client`
sends a request to the member that `affinity` chooses, and to another one if that fails before its first token. `states`
tells what is wrong with members. `setting_import` moves STOA_REMOTE_MODELS into the database.
"""
