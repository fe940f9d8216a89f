"""`keys`: API keys."""

import json
from datetime import datetime, timedelta
from typing import Annotated, Any

import typer
from django.utils import timezone

from inference.cli.failures import NOT_FOUND, fail
from inference.cli.listings import AsJson, print_json, print_list
from shared.accounts.models import ApiKey, User
from shared.accounts.services import create_api_key, revoke_api_key
from shared.api.errors import ApiError

app = typer.Typer(help="API keys.", no_args_is_help=True)


@app.command()
def create(
    user_id: Annotated[int, typer.Argument(help="The id of the user whom the key speaks for.")],
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    permission: Annotated[
        list[str] | None, typer.Option(help="Only this permission, of those that the user has; may be given again.")
    ] = None,
    expires_in_days: Annotated[int | None, typer.Option(min=1, max=36500, help="Refused after so many days.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make an API key. It is shown this once."""
    now = timezone.now()
    expires_at = now + timedelta(days=expires_in_days) if expires_in_days else None
    try:
        user = User.objects.get(pk=user_id)
        key, raw = create_api_key(user=user, name=name, permissions=permission, expires_at=expires_at, now=now)
    except User.DoesNotExist:
        fail(f"There is no user {user_id}: the admin lists users with their ids.", NOT_FOUND)
    except ApiError as error:
        fail(error)
    if as_json:
        typer.echo(json.dumps({"id": key.pk, "user_id": user.pk, "name": key.name, "key": raw}))
    else:
        typer.echo(raw)
        typer.echo("Keep it now: it cannot be shown again.", err=True)


@app.command("list")
def list_(
    user_id: Annotated[int | None, typer.Option("--user", help="Only this user's.")] = None, as_json: AsJson = False
) -> None:
    """List the keys, newest first. Their secrets are not kept."""
    keys = ApiKey.objects.select_related("user")
    found = [_told(key) for key in (keys if user_id is None else keys.filter(user_id=user_id))]
    if as_json:
        print_json(found)
    else:
        shown = ("id", "name", "key", "user", "permissions", "limits", "last used", "state")
        print_list(shown, (_row(key) for key in found))


@app.command()
def revoke(key_id: Annotated[int, typer.Argument(help="The id that `keys list` shows.")]) -> None:
    """Refuse a key from the next request on."""
    try:
        key = ApiKey.objects.get(pk=key_id)
    except (ApiKey.DoesNotExist, OverflowError):
        fail(f"There is no key {key_id}: `stoa keys list` shows them.", NOT_FOUND)
    revoke_api_key(api_key=key, now=timezone.now())
    typer.echo(f"Revoked {key.prefix}", err=True)


def _told(key: ApiKey) -> dict[str, Any]:
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
    permissions = "all of the user's" if key["permissions"] is None else ", ".join(key["permissions"])
    ended = f"revoked {key['revoked_at']}" if key["revoked_at"] else ""
    ends = f"until {key['expires_at']}" if key["expires_at"] else "valid"
    own = [one for one in key["limits"].values() if one is not None]
    limits = "/".join("default" if one is None else str(one) for one in key["limits"].values()) if own else "default"
    shown = (key["id"], key["name"], f"{key['prefix']}...", key["user"], permissions, limits)
    return (*shown, key["last_used_at"] or "never", ended or ends)
