"""Where OpenTelemetry's variables say that traces go."""

from django.core.exceptions import ImproperlyConfigured

from shared.environment import Environment

SPOKEN = "http/protobuf"


def collector(env: Environment) -> str:
    """The address of a collector, or "". ImproperlyConfigured where it is to be spoken to in another way than ours."""
    address = _of_traces(env, "ENDPOINT")
    protocol = _of_traces(env, "PROTOCOL") or SPOKEN
    if address and protocol != SPOKEN:
        raise ImproperlyConfigured(f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}: traces are sent as {SPOKEN} only.")
    return address


def _of_traces(env: Environment, name: str) -> str:
    """What is said of traces, else of everything."""
    return str(env.str(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or env.str(f"OTEL_EXPORTER_OTLP_{name}"))
