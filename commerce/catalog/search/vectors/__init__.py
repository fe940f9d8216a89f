"""Vectors of the products: made by the model server (`embedding`), held in memory (`matrix`), searched (`semantic`)."""
