"""The OpenTelemetry collector from its environment variables."""

from django.core.exceptions import ImproperlyConfigured

from shared.environment import Environment

SUPPORTED_PROTOCOL = "http/protobuf"


def collector(env: Environment) -> str:
    """Return the URL of the collector, or "". Raise ImproperlyConfigured for a protocol other than `http/protobuf`."""
    url = _traces_variable(env, "ENDPOINT")
    protocol = _traces_variable(env, "PROTOCOL") or SUPPORTED_PROTOCOL
    if url and protocol != SUPPORTED_PROTOCOL:
        raise ImproperlyConfigured(
            f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}: set it to {SUPPORTED_PROTOCOL}, the only one supported."
        )
    return url


def _traces_variable(env: Environment, name: str) -> str:
    """Return the variable for traces, or else the one for all signals."""
    return env.str(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or env.str(f"OTEL_EXPORTER_OTLP_{name}")
