"""Models of this machine: the clients of its model host and of its model processes.

`clients` has this process's clients. `replicas` sends a request to one replica of a model, in the form in which
`inference.remote` sends it to a server, so that a pool can have members of both kinds.
"""
