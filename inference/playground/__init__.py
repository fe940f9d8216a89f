"""A page on which to try the models: one template and plain scripts, no build step. What it does it does over the API,
so nothing here knows a model or a credential."""
