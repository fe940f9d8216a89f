"""What users take of the model server: how much they may, how much they have, and the ledger of it.

Who generates something asks `services.admit`; what was not generated for a request is told to `services.record_usage`.
"""
