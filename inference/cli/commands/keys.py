"""The command group `keys`."""

import json
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer
from django.utils import timezone

from inference.cli.errors import EXIT_NOT_FOUND, EXIT_USAGE, exit_with_error
from inference.cli.output import JsonOption, print_json, print_table
from shared.accounts.models import ApiKey, User
from shared.accounts.services import create_api_key, revoke_api_key
from shared.api.errors import ApiError

app = typer.Typer(help="Manage API keys.", no_args_is_help=True)


@app.command()
def create(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[USER_ID] NAME", help="The id of the key's user, without --user; a name that tells its purpose."
        ),
    ],
    email: Annotated[
        str | None, typer.Option("--user", metavar="E-MAIL", help="The e-mail address of the key's user.")
    ] = None,
    permission: Annotated[
        list[str] | None, typer.Option(help="Restrict the key to this permission of the user. May be repeated.")
    ] = None,
    expires_in_days: Annotated[int | None, typer.Option(min=1, max=36500, help="Days until the key expires.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Create an API key and show it, this once."""
    now = timezone.now()
    expires_at = now + timedelta(days=expires_in_days) if expires_in_days else None
    user = _find_user(words[:-1], email)
    name = words[-1]
    try:
        key, raw = create_api_key(user=user, name=name, permissions=permission, expires_at=expires_at, now=now)
    except ApiError as error:
        exit_with_error(error)
    if as_json:
        typer.echo(json.dumps({"id": key.pk, "user_id": user.pk, "name": key.name, "key": raw}))
    else:
        typer.echo(raw)
        typer.echo("Save the key now: it cannot be shown again.", err=True)


def _find_user(ids: list[str], email: str | None) -> User:
    """Return the user of an id or of an e-mail address, of which exactly one must be given."""
    if len(ids) != (email is None):
        exit_with_error("Name the user once: keys create USER_ID NAME, or keys create --user E-MAIL NAME.", EXIT_USAGE)
    if email is None and not (ids[0].isascii() and ids[0].isdigit()):
        exit_with_error(f"{ids[0]!r} is no id of a user. For an e-mail address use --user.", EXIT_USAGE)
    try:
        return User.objects.get(pk=int(ids[0])) if email is None else User.objects.get(email__iexact=email)
    except (User.DoesNotExist, OverflowError):
        who = ids[0] if email is None else email
        exit_with_error(f"There is no user {who}: the admin lists users with their ids.", EXIT_NOT_FOUND)


@app.command("list")
def list_(
    user_id: Annotated[int | None, typer.Option("--user", help="List only this user's keys.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List API keys without their secrets, newest first."""
    keys = ApiKey.objects.select_related("user")
    fields = [_key_fields(key) for key in (keys if user_id is None else keys.filter(user_id=user_id))]
    if as_json:
        print_json(fields)
    else:
        columns = ("id", "name", "key", "user", "permissions", "limits", "last used", "state")
        print_table(columns, map(_row, fields))


@app.command()
def revoke(key_id: Annotated[int, typer.Argument(help="The key's id, as `stoa keys list` shows it.")]) -> None:
    """Revoke an API key: requests with it are refused from now on."""
    try:
        key = ApiKey.objects.get(pk=key_id)
    except (ApiKey.DoesNotExist, OverflowError):
        exit_with_error(f"There is no key {key_id}: `stoa keys list` lists the keys.", EXIT_NOT_FOUND)
    revoke_api_key(api_key=key, now=timezone.now())
    typer.echo(f"Revoked {key.prefix}", err=True)


def _key_fields(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.pk,
        "name": key.name,
        "prefix": key.prefix,
        "user_id": key.user_id,
        "user": key.user.email,
        "permissions": key.permissions,
        "limits": {
            "requests_per_minute": key.request_limit,
            "tokens_per_minute": key.token_limit,
            "concurrent_requests": key.concurrency_limit,
            "tokens_per_month": key.monthly_token_limit,
        },
        "created_at": _iso(key.created_at),
        "last_used_at": _iso(key.last_used_at),
        "expires_at": _iso(key.expires_at),
        "revoked_at": _iso(key.revoked_at),
    }


def _iso(at: datetime | None) -> str | None:
    return at.isoformat(timespec="seconds") if at else None


def _row(key: dict[str, Any]) -> tuple[object, ...]:
    limits = list(key["limits"].values())
    has_limits = any(limit is not None for limit in limits)
    state = f"expires {key['expires_at']}" if key["expires_at"] else "valid"
    return (
        key["id"],
        key["name"],
        f"{key['prefix']}...",
        key["user"],
        "all of the user's" if key["permissions"] is None else ", ".join(key["permissions"]),
        "/".join("default" if limit is None else str(limit) for limit in limits) if has_limits else "default",
        key["last_used_at"] or "never",
        f"revoked {key['revoked_at']}" if key["revoked_at"] else state,
    )
