"""The command group `pools`."""

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
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
    api_key_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file with the server's API key; - reads it from standard input."),
    ] = None,
    model_name: Annotated[str, typer.Option(help="The model's name at the server, if it is not MODEL.")] = "",
    kind: Annotated[
        str,
        typer.Option(
            help="openai, vllm, sglang, transformers, llama.cpp or stoa: what the server understands. local: the model "
            "of this machine with the id MODEL."
        ),
    ] = "openai",
    max_waiting: Annotated[
        int,
        typer.Option(
            min=0, help="Only for --kind local: requests that may wait there before others go to the other members."
        ),
    ] = 0,
    weight: Annotated[int, typer.Option(min=1, help="Share of the requests, relative to other members.")] = 1,
    capability: Annotated[
        list[str] | None,
        typer.Option(help="text-generation or embeddings. May be repeated.", show_default=TEXT_GENERATION),
    ] = None,
    context_size: Annotated[int, typer.Option(min=0, help="Tokens; 0: what the server reports.")] = 0,
    stream_usage: Annotated[bool, typer.Option(help="Whether the server reports usage at the end of streams.")] = True,
    batches: Annotated[
        bool, typer.Option("--batches", help="Hand whole batches of files to its /v1/batches: --kind openai or stoa.")
    ] = False,
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
    )
    try:
        services.save_member(member=member, api_key=_read_key(api_key_file), actor=None, now=timezone.now())
    except ApiError as error:
        exit_with_error(error)
    typer.echo(f"Added {member}. Test it with: stoa pools test {model} {member.name}", err=True)


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


def _read_key(file: Path | None) -> str:
    if file is None:
        return ""
    try:
        key = (sys.stdin.read() if str(file) == "-" else file.read_text()).strip()
    except (OSError, UnicodeDecodeError) as error:
        exit_with_error(f"{file} cannot be read: {error}.", EXIT_USAGE)
    if not key:
        exit_with_error(f"{file} is empty: it must have the API key alone.", EXIT_USAGE)
    return key
