"""OpenAI's batches, /v1/batches: an input file becomes a batch of `inference.batches`, and its results become files.

`views` are the routes; `services` creates, lists and cancels; `input_file` validates the input file line by line;
`output_files` writes the output and error files once the batch has ended; `handover` gives whole batches to members of
pools that take them.
"""
