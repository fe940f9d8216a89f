"""Wire structs of reranking and of scores, in the forms of Cohere, Jina and vLLM."""
