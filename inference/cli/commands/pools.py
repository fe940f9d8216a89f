"""The command group `pools`."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from django.db import transaction
from django.utils import timezone

from inference.cli.errors import EXIT_FAILURE, EXIT_NOT_FOUND, EXIT_USAGE, exit_with_error
from inference.cli.output import JsonOption, print_json, print_table
from inference.cli.server import require_local
from inference.engine import EngineError, GenerationRequest, Message, SamplingParams
from inference.pools import services
from inference.pools.cache import member_of
from inference.pools.client import pool_client
from inference.pools.definitions import LOCAL, Member, Pool, default_member_name
from inference.pools.models import TEXT_GENERATION, PoolMember
from inference.pools.states import MemberState, check_members, read_states
from shared.api.errors import ApiError

TEST_TIMEOUT_SECONDS = 60.0

app = typer.Typer(help="Manage pools: models that other servers run, or that overflow to them.", no_args_is_help=True)

ModelId = Annotated[str, typer.Argument(metavar="MODEL", help="The model's id here.")]
MemberName = Annotated[str, typer.Argument(metavar="MEMBER", help="The member's name, as `stoa pools list` shows it.")]
ApiKeyFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A file with the server's API key; - reads it from standard input.")
]

# Options of both `add`, which has defaults, and `change`, which has none.
MODEL_NAME = typer.Option(help="The model's name at the server, if it is not MODEL.")
KIND = typer.Option(
    help="openai, vllm, sglang, transformers, llama.cpp or stoa: what the server understands. local: the model of this "
    "machine with the id MODEL."
)
MAX_WAITING = typer.Option(
    min=0, help="Only for --kind local: requests that may wait there before others go to the other members."
)
WEIGHT = typer.Option(min=1, help="Share of the requests, relative to other members.")
CAPABILITY_HELP = "text-generation or embeddings. May be repeated."
CONTEXT_SIZE = typer.Option(min=0, help="Tokens; 0: what the server reports.")
STREAM_USAGE = typer.Option(help="Whether the server reports usage at the end of streams.")
BATCHES_HELP = "Hand whole batches of files to its /v1/batches: --kind openai or stoa."
CONNECT_TIMEOUT = typer.Option(help="Seconds to connect.")
FIRST_TOKEN_TIMEOUT = typer.Option(help="Seconds to the first token.")
TOKEN_TIMEOUT = typer.Option(help="Seconds between tokens.")


@app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """List the members of all pools, each after a check of its server."""
    require_local("pools list")
    members = list(PoolMember.objects.all())
    fields = [_fields(*found) for found in zip(members, check_members(map(member_of, members)), strict=True)]
    if as_json:
        print_json(fields)
        return
    columns = ("model", "member", "base_url", "kind", "model_name", "weight", "state", "error")
    rows = (one | {"error": one["error"] or one["warning"] or ""} for one in fields)
    print_table(columns, ([row[column] for column in columns] for row in rows))


@app.command()
def add(
    model: ModelId,
    base_url: Annotated[
        str, typer.Argument(help="The server's URL with /v1, as OpenAI's clients take it. Not for --kind local.")
    ] = "",
    name: Annotated[
        str | None, typer.Option(help="The member's name. By default the URL's host and port, or local.")
    ] = None,
    api_key_file: ApiKeyFile = None,
    model_name: Annotated[str, MODEL_NAME] = "",
    kind: Annotated[str, KIND] = "openai",
    max_waiting: Annotated[int, MAX_WAITING] = 0,
    weight: Annotated[int, WEIGHT] = 1,
    capability: Annotated[list[str] | None, typer.Option(help=CAPABILITY_HELP, show_default=TEXT_GENERATION)] = None,
    context_size: Annotated[int, CONTEXT_SIZE] = 0,
    stream_usage: Annotated[bool, STREAM_USAGE] = True,
    batches: Annotated[bool, typer.Option("--batches", help=BATCHES_HELP)] = False,
    connect_timeout: Annotated[float, CONNECT_TIMEOUT] = 5.0,
    first_token_timeout: Annotated[float, FIRST_TOKEN_TIMEOUT] = 120.0,
    token_timeout: Annotated[float, TOKEN_TIMEOUT] = 60.0,
) -> None:
    """Add a member to the pool of a model. Servers and workers use it within seconds."""
    require_local("pools add")
    member = PoolMember(
        model_id=model,
        name=name or default_member_name(kind, base_url),
        base_url=base_url,
        model_name=model_name,
        kind=kind,
        max_waiting=max_waiting,
        weight=weight,
        capabilities=capability or [TEXT_GENERATION],
        context_size=context_size,
        stream_usage=stream_usage,
        takes_batches=batches,
        connect_timeout=connect_timeout,
        first_token_timeout=first_token_timeout,
        token_timeout=token_timeout,
    )
    _save(member, _read_key(api_key_file) or "")
    typer.echo(f"Added {member}. Test it with: stoa pools test {model} {member.name}", err=True)


@app.command()
def change(
    model: ModelId,
    member: MemberName,
    base_url: Annotated[
        str | None, typer.Option(help="The server's URL with /v1. One of another server needs that server's API key.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Another name of the member.")] = None,
    api_key_file: ApiKeyFile = None,
    remove_api_key: Annotated[bool, typer.Option("--remove-api-key", help="Remove the stored API key.")] = False,
    model_name: Annotated[str | None, MODEL_NAME] = None,
    kind: Annotated[str | None, KIND] = None,
    max_waiting: Annotated[int | None, MAX_WAITING] = None,
    weight: Annotated[int | None, WEIGHT] = None,
    capability: Annotated[list[str] | None, typer.Option(help=CAPABILITY_HELP)] = None,
    context_size: Annotated[int | None, CONTEXT_SIZE] = None,
    stream_usage: Annotated[bool | None, STREAM_USAGE] = None,
    batches: Annotated[bool | None, typer.Option("--batches/--no-batches", help=BATCHES_HELP)] = None,
    connect_timeout: Annotated[float | None, CONNECT_TIMEOUT] = None,
    first_token_timeout: Annotated[float | None, FIRST_TOKEN_TIMEOUT] = None,
    token_timeout: Annotated[float | None, TOKEN_TIMEOUT] = None,
) -> None:
    """Change what is given of a member, and keep the rest. Servers and workers use it within seconds."""
    require_local("pools change")
    options = {
        "base_url": base_url,
        "name": name,
        "model_name": model_name,
        "kind": kind,
        "max_waiting": max_waiting,
        "weight": weight,
        "capabilities": capability or None,
        "context_size": context_size,
        "stream_usage": stream_usage,
        "takes_batches": batches,
        "connect_timeout": connect_timeout,
        "first_token_timeout": first_token_timeout,
        "token_timeout": token_timeout,
    }
    fields = {field: value for field, value in options.items() if value is not None}
    if remove_api_key and api_key_file:
        exit_with_error("Give --api-key-file or --remove-api-key, not both.", EXIT_USAGE)
    api_key = "" if remove_api_key else _read_key(api_key_file)
    if not fields and api_key is None:
        exit_with_error("Give at least one option: `stoa pools change --help` lists them.", EXIT_USAGE)
    with transaction.atomic():
        found = PoolMember.objects.select_for_update().get(pk=_find(model, member).pk)  # as it is now
        for field, value in fields.items():
            setattr(found, field, value)
        _save(found, api_key)
    typer.echo(f"Changed {found}. Test it with: stoa pools test {model} {found.name}", err=True)


@app.command()
def remove(model: ModelId, member: MemberName) -> None:
    """Remove a member. Its running requests finish; without its last member the model is gone."""
    require_local("pools remove")
    found = _find(model, member)
    services.remove_member(member=found, actor=None, now=timezone.now())
    typer.echo(f"Removed {model}/{member}", err=True)


@app.command()
def drain(
    model: ModelId,
    member: MemberName,
    undo: Annotated[bool, typer.Option("--undo", help="Let the member get requests again.")] = False,
) -> None:
    """Give a member no new requests. Its running ones finish."""
    require_local("pools drain")
    state = PoolMember.State.ENABLED if undo else PoolMember.State.DRAINING
    services.set_member_state(member=_find(model, member), state=state, actor=None, now=timezone.now())
    typer.echo(f"{'Enabled' if undo else 'Draining'} {model}/{member}", err=True)


@app.command("test")
def check(
    model: ModelId,
    member: Annotated[str | None, typer.Argument(metavar="[MEMBER]", help="By default all of the pool.")] = None,
) -> None:
    """Check members and let each generate one token. Exit with 0 only if all do."""
    require_local("pools test")
    rows = [_find(model, member)] if member else list(PoolMember.objects.filter(model_id=model))
    if not rows:
        exit_with_error(f"{model} has no pool: `stoa pools list` lists them.", EXIT_NOT_FOUND)
    results = asyncio.run(_test_all([member_of(row) for row in rows]))
    names = [row.name for row in rows]
    print_table(("member", "result"), zip(names, (result or "ok" for result in results), strict=True))
    if any(results):
        raise typer.Exit(EXIT_FAILURE)


async def _test_all(members: list[Member]) -> list[str]:
    try:
        return list(await asyncio.gather(*map(_test, members)))
    finally:
        await pool_client().close()


async def _test(member: Member) -> str:
    """Return what is wrong with a member, or an empty string."""
    [state] = await read_states([member], check=True)
    if state.error:
        return state.error
    if not (member.is_local or TEXT_GENERATION in member.model.capabilities):
        return state.warning or ""
    request = GenerationRequest(
        request_id="test",
        messages=(Message("user", "Hello"),),
        sampling=SamplingParams(max_tokens=1),
        timeout=TEST_TIMEOUT_SECONDS,
    )
    alone = Pool(member.model.id, (Member(member.name, member.model),))
    try:
        async with await pool_client().generate(alone, request) as stream:
            outputs = [output async for output in stream]
    except EngineError as error:
        return error.message
    return outputs[-1].error or state.warning or ""


def _fields(member: PoolMember, state: MemberState) -> dict[str, Any]:
    return {
        "model": member.model_id,
        "member": member.name,
        "base_url": member.base_url,
        "kind": member.kind,
        "model_name": state.member.model.name,
        "weight": member.weight,
        "max_waiting": member.max_waiting if member.kind == LOCAL else None,
        "capabilities": member.capabilities,
        "takes_batches": member.takes_batches,
        "connect_timeout": member.connect_timeout,
        "first_token_timeout": member.first_token_timeout,
        "token_timeout": member.token_timeout,
        "has_api_key": bool(member.api_key),
        "state": state.state,
        "error": state.error,
        "warning": state.warning,
    }


def _find(model: str, member: str) -> PoolMember:
    try:
        return services.find_member(model_id=model, name=member)
    except ApiError as error:
        exit_with_error(error)


def _save(member: PoolMember, api_key: str | None) -> None:
    """Save a member, or exit. api_key: None keeps the stored one, which is never sent to another server."""
    try:
        services.save_member(member=member, api_key=api_key, actor=None, now=timezone.now())
    except ApiError as error:
        is_key_missing = api_key is None and error.problem.details == {"field": "api_key"}
        hint = " Use --api-key-file FILE or --remove-api-key." if is_key_missing else ""
        exit_with_error(f"{error.problem.message}{hint}", EXIT_USAGE)


def _read_key(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        key = (sys.stdin.read() if str(file) == "-" else file.read_text()).strip()
    except (OSError, UnicodeDecodeError) as error:
        exit_with_error(f"{file} cannot be read: {error}.", EXIT_USAGE)
    if not key:
        exit_with_error(f"{file} is empty: it must have the API key alone.", EXIT_USAGE)
    return key
