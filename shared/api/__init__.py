"""What every HTTP answer of both projects shares: errors, strict JSON, rate limits, the schema's common parts."""
