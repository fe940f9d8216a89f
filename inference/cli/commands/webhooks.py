"""The command group `webhooks`."""

from typing import Annotated

import typer
from django.utils import timezone

from inference.cli.errors import EXIT_FAILURE, EXIT_NOT_FOUND, exit_with_error
from inference.cli.output import JsonOption, print_json, print_table
from shared.webhooks.deliveries import redeliver_all
from shared.webhooks.models import Delivery, DeliveryState

app = typer.Typer(help="Manage webhook deliveries.", no_args_is_help=True)


@app.command()
def failed(
    user_id: Annotated[int | None, typer.Option("--user", help="List only this user's deliveries.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List failed deliveries, which are not retried any more, newest first."""
    deliveries = Delivery.objects.filter(state=DeliveryState.FAILED).with_last_attempt()
    columns = {
        "id": "public_id",
        "user": "endpoint__user__email",
        "destination": "destination",
        "attempts": "attempts",
        "status": "last_status",
        "failure": "last_failure",
        "given_up_at": "finished_at",
    }
    deliveries = deliveries if user_id is None else deliveries.filter(endpoint__user=user_id)
    rows = deliveries.values_list(*columns.values())
    values = ((*row[:-1], row[-1].isoformat(timespec="seconds")) for row in rows)
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in values])
    else:
        print_table(tuple(columns), (["" if value is None else value for value in row] for row in values))


@app.command()
def redeliver(
    deliveries: Annotated[
        list[str],
        typer.Argument(metavar="DELIVERY...", help="The ids of deliveries, as `stoa webhooks failed` shows them."),
    ],
) -> None:
    """Send failed deliveries again, to the current URLs of their webhooks. Exit with 0 only if all succeed."""
    found = dict(Delivery.objects.filter(public_id__in=deliveries).values_list("public_id", "pk"))
    if unknown := [delivery for delivery in deliveries if delivery not in found]:
        exit_with_error(f"There is no delivery {unknown[0]}: `stoa webhooks failed` lists them.", EXIT_NOT_FOUND)
    result = redeliver_all(deliveries=list(found.values()), now=timezone.now())
    typer.echo(str(result), err=True)
    if result.queued < len(found):
        raise typer.Exit(EXIT_FAILURE)
