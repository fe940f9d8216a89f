"""`webhooks`: what was given up, and sending it again."""

from typing import Annotated

import typer
from django.utils import timezone

from inference.cli.failures import FAILED, NOT_FOUND, fail
from inference.cli.listings import AsJson, print_json, print_list
from inference.webhooks.models import Delivery
from inference.webhooks.redelivery import redeliver_all

app = typer.Typer(help="Messages to webhooks.", no_args_is_help=True)


@app.command()
def failed(
    user_id: Annotated[int | None, typer.Option("--user", help="Only this user's.")] = None, as_json: AsJson = False
) -> None:
    """List the deliveries that were given up, newest first."""
    found = Delivery.objects.filter(state=Delivery.State.FAILED).with_last_attempt()
    columns = {
        "id": "public_id",
        "user": "endpoint__user__email",
        "destination": "destination",
        "attempts": "attempts",
        "status": "last_status",
        "failure": "last_failure",
        "given_up_at": "finished_at",
    }
    rows = (found if user_id is None else found.filter(endpoint__user=user_id)).values_list(*columns.values())
    told = ((*row[:-1], row[-1].isoformat(timespec="seconds")) for row in rows)
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in told])
    else:
        print_list(tuple(columns), (["" if value is None else value for value in row] for row in told))


@app.command()
def redeliver(
    deliveries: Annotated[list[str], typer.Argument(metavar="DELIVERY...", help="What `webhooks failed` shows.")],
) -> None:
    """Send deliveries again, now, to the addresses that their webhooks have now: status 0 when all of them are."""
    found = dict(Delivery.objects.filter(public_id__in=deliveries).values_list("public_id", "pk"))
    if unknown := [delivery for delivery in deliveries if delivery not in found]:
        fail(f"There is no delivery {unknown[0]}: `stoa webhooks failed` lists what was given up.", NOT_FOUND)
    told = redeliver_all(deliveries=list(found.values()), now=timezone.now())
    typer.echo(str(told), err=True)
    if told.sent < len(found):
        raise typer.Exit(FAILED)
