"""The model registry: the models that exist (`catalog`), should be loaded (`desired_state`) and are (`model_status`).

Import `services` to find, load and unload models, and `engines.model_engine` to send a request to one. `supervisor` and
`reconciler` keep the host and its models running.
"""
