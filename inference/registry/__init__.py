"""Which models exist (`catalog`), which are wanted and run (`services`), and the host that runs them (`processes`)."""
