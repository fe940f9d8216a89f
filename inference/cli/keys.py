"""`keys create`: API keys."""

import json
from typing import Annotated

import typer
from django.utils import timezone

from inference.cli.failures import fail
from shared.accounts.models import User
from shared.accounts.services import create_api_key
from shared.api.errors import ApiError

app = typer.Typer(help="API keys.", no_args_is_help=True)


@app.callback()
def keys() -> None:
    """API keys."""


@app.command()
def create(
    user_id: Annotated[int, typer.Argument(help="The id of the user whom the key speaks for.")],
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    permission: Annotated[
        list[str] | None, typer.Option(help="Only this permission, of those that the user has; may be given again.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For scripts.")] = False,
) -> None:
    """Make an API key. It is shown this once."""
    try:
        user = User.objects.get(pk=user_id)
        key, raw = create_api_key(user=user, name=name, permissions=permission, now=timezone.now())
    except User.DoesNotExist:
        fail(f"There is no user {user_id}: the admin lists users with their ids.")
    except ApiError as error:
        fail(error)
    if as_json:
        typer.echo(json.dumps({"id": key.pk, "user_id": user.pk, "name": key.name, "key": raw}))
    else:
        typer.echo(raw)
        typer.echo("Keep it now: it cannot be shown again.", err=True)
