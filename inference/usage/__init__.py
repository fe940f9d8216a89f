"""Usage of the model server by users and API keys: their limits, their monthly quotas and the usage ledger.

Before a generation, call `services.admit`; for work that was not admitted, as a batch's, call `services.record_usage`.
"""
