"""An upgrade under load: the previous version from git, processes of both versions on one database, and clients."""
