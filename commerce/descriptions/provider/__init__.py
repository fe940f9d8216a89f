"""HTTP clients of the language model's server: `client` for single texts, `batches` for bulk jobs. Uses no database."""
