"""Wire structs of /v1/responses and /v1/conversations: items, requests, responses, and the events of a stream."""
