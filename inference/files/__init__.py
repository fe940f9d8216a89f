"""Files in OpenAI's form, /v1/files: input files of batches, and the output and error files that batches write.

Import `services`: it stores, publishes, finds and deletes files.
"""
