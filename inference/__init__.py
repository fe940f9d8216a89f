"""The model server: models come and go, text is generated, embeddings are made."""
