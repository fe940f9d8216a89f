"""The model registry: the models that exist (`catalog`), should be loaded (`desired_state`) and are (`model_status`).

Import `services` to find, load and unload models, `engines.model_engine` to send a request to one, and `clients` for
this process's connections to the model host. `supervisor` and `reconciler` keep the host and its models running.
"""
