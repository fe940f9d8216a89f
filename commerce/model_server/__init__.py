"""HTTP clients of the model server that several apps use: embeddings, the transport's limits and the circuit breaker.

Uses no database.
"""
