"""Forged access tokens, made from a valid one."""

import base64
import hashlib
import hmac
import json
import time
from typing import Any

from django.conf import settings

Header = dict[str, Any]
Payload = dict[str, Any]


def encode(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def decode(part: str) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return parsed


def signed(header: Header, payload: Payload | bytes, key: str | None = None, digest: str = "sha256") -> str:
    """Return a token with any header and payload, signed as ours are."""
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    head = f"{encode(json.dumps(header).encode())}.{encode(body)}"
    secret = settings.SIMPLE_JWT["SIGNING_KEY"] if key is None else key
    return f"{head}.{encode(hmac.new(secret.encode(), head.encode(), getattr(hashlib, digest)).digest())}"


def forged_tokens(access: str, refresh: str, other_users_access: str) -> dict[str, str]:
    """Return forgeries by name. Those that need our key stand for bugs of our own code."""
    head, body, signature = access.split(".")
    header, payload = decode(head), decode(body)
    now = int(time.time())
    other_body = other_users_access.split(".")[1]

    def without(name: str) -> str:
        return signed(header, {key: value for key, value in payload.items() if key != name})

    def having(**changes: Any) -> str:
        return signed(header, payload | changes)

    def headed(**changes: Any) -> str:
        return signed(header | changes, payload, key="x" * 50)

    def unsigned(algorithm: str) -> str:
        return f"{encode(json.dumps({'alg': algorithm, 'typ': 'JWT'}).encode())}.{body}"

    return {
        "alg none, no signature": unsigned("none") + ".",
        "alg None": unsigned("None") + ".",
        "alg NONE with the old signature": unsigned("NONE") + f".{signature}",
        "alg empty": signed(header | {"alg": ""}, payload),
        "alg missing": signed({"typ": "JWT"}, payload),
        "alg HS384": signed(header | {"alg": "HS384"}, payload, digest="sha384"),
        "alg HS512": signed(header | {"alg": "HS512"}, payload, digest="sha512"),
        "alg RS256, signed with the HMAC key": signed(header | {"alg": "RS256"}, payload),
        "alg ES256, signed with the HMAC key": signed(header | {"alg": "ES256"}, payload),
        "alg a list": signed(header | {"alg": ["HS256"]}, payload),
        "another key": signed(header, payload, key="another installation's key, as long as ours is"),
        "an empty key": signed(header, payload, key=""),
        "kid that names a file": headed(kid="../../../../dev/null"),
        "kid that is SQL": headed(kid="x' UNION SELECT 'x"),
        "jku of the attacker": headed(jku="http://127.0.0.1:9/keys.json"),
        "jwk of the attacker": headed(jwk={"kty": "oct", "k": encode(b"x" * 50)}),
        "x5u of the attacker": headed(x5u="http://127.0.0.1:9/cert.pem"),
        "crit of the unknown": signed(header | {"crit": ["stoa-unknown"], "stoa-unknown": True}, payload),
        "crit b64": signed(header | {"crit": ["b64"], "b64": False}, payload),
        "crit empty": signed(header | {"crit": []}, payload),
        "expired": having(exp=now - 1),
        "no exp": without("exp"),
        "exp a word": having(exp="never"),
        "not yet valid": having(nbf=now + 600),
        "no nbf": without("nbf"),
        "made in the future": having(iat=now + 600),
        "another audience": having(aud="elsewhere"),
        "no audience": without("aud"),
        "ours among several audiences": having(aud=["elsewhere", settings.SIMPLE_JWT["AUDIENCE"]]),
        "another issuer": having(iss="elsewhere"),
        "no issuer": without("iss"),
        "no subject": without("sub"),
        "another user's id": having(sub=str(int(payload["sub"]) + 1)),
        "another user's body, the old signature": f"{head}.{other_body}.{signature}",
        "no family": without("family"),
        "a family that never was": having(family="0" * 32),
        "a family that is no id": having(family={"$ne": None}),
        "an older version": having(version=-1),
        "no kind": without("kind"),
        "a refresh token": refresh,
        "a refresh token that says it is access, unsigned": f"{head}.{refresh.split('.')[1]}.{signature}",
        "a payload that is a list": signed(header, b"[]"),
        "a payload of 100k of nesting": signed(header, b"[" * 2000 + b"]" * 2000),
        "cut short": access[:-4],
        "a bit of the signature turned": f"{head}.{body}.{'A' if signature[0] != 'A' else 'B'}{signature[1:]}",
        "the signature gone": f"{head}.{body}.",
        "two parts": f"{head}.{body}",
        "five parts": f"{access}.{body}.{signature}",
        "not ASCII": access + "é",
        "far too long": access + "A" * 100_000,
        "nothing but dots": "..",
    }
