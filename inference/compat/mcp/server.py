"""The MCP server of one caller: its tools and resources, and one exchange with it."""

import asyncio
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

import mcp_types as types
import msgspec
import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError

from inference.access.requests import require_permission
from inference.access.responses import problem_from_engine_error
from inference.compat.mcp.tools import SEARCH_PRODUCTS, TOOLS, Tool
from inference.engine import EngineError
from inference.protocol.mcp.messages import McpMessage
from inference.protocol.native.models import ModelInfo
from inference.protocol.parsing import parse_struct
from inference.registry.model_status import list_models
from shared.accounts.authentication import Principal
from shared.accounts.roles import Permission
from shared.api.errors import ApiError

MODEL_URI = "stoa://models/"
JSON = "application/json"
INSTRUCTIONS = (
    "Tools run models of this server. Their names are the resources stoa://models/..., with what each can do and "
    "whether it is loaded. Use batches for many prompts."
)
INTERNAL_ERROR_MESSAGE = "An internal error occurred. Tell the operator the time if it happens again."

Context = ServerRequestContext[Any, Any]
logger = structlog.get_logger(__name__)


async def respond(request: HttpRequest, message: McpMessage, caller: Principal) -> HttpResponse:
    """Return the SDK's response to one POST with one message."""
    exchange = _Exchange(request, msgspec.json.encode(message))
    manager = StreamableHTTPSessionManager(build_server(caller), json_response=True, stateless=True)
    async with manager.run():
        await manager.handle_request(exchange.scope, exchange.receive, exchange.send)
    return exchange.response()


def build_server(caller: Principal) -> Server[Any]:
    """Return the server that this caller talks to."""
    session = McpSession(caller)
    server: Server[Any] = Server(
        "stoa",
        title="Stoa",
        version=settings.VERSION,
        instructions=INSTRUCTIONS,
        get_tool_input_schema=lambda name: tool.input_schema if (tool := offered_tools().get(name)) else None,
        on_list_tools=session.list_tools,
        on_call_tool=session.call_tool,
        on_list_resources=session.list_resources,
        on_list_resource_templates=session.list_resource_templates,
        on_read_resource=session.read_resource,
    )
    server.middleware.clear()  # spans of its own: the request has one already
    return server


def offered_tools() -> Mapping[str, Tool]:
    """Return the tools by name. Products are searched only if the operator has named a shop."""
    return {tool.name: tool for tool in TOOLS if tool is not SEARCH_PRODUCTS or settings.SHOP_URL}


class McpSession:
    """Handlers of the protocol's methods for one caller."""

    def __init__(self, caller: Principal) -> None:
        self.caller = caller

    async def list_tools(self, context: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        """Return all tools, on one page."""
        return types.ListToolsResult(tools=[_tool(tool) for tool in offered_tools().values()])

    async def call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Return the result of a tool. Errors that its caller can mend are results too, as the protocol asks."""
        tool = offered_tools().get(params.name)
        if tool is None:
            names = ", ".join(offered_tools())
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {params.name[:100]!r}. Use one of {names}.")
        try:
            result = await tool.run(self.caller, parse_struct(params.arguments or {}, tool.arguments))
        except (ApiError, EngineError) as error:
            problem = error.problem if isinstance(error, ApiError) else problem_from_engine_error(error)
            return _result(problem.message.encode(), is_error=True)
        except Exception:
            logger.exception("mcp_tool_failed", tool=tool.name)
            raise MCPError(types.INTERNAL_ERROR, INTERNAL_ERROR_MESSAGE) from None
        return _result(text := msgspec.json.encode(result), msgspec.json.decode(text))

    async def list_resources(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """Return the models, on one page."""
        return types.ListResourcesResult(resources=[_resource(model) for model in await self._models()])

    async def list_resource_templates(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """Return the template of the models' addresses."""
        template = types.ResourceTemplate(
            name="model", title="Model", uri_template=MODEL_URI + "{id}", mime_type=JSON, description="One model."
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def read_resource(
        self, context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Return what GET /models says about one model."""
        uri = str(params.uri)
        model_id = unquote(uri.removeprefix(MODEL_URI)) if uri.startswith(MODEL_URI) else None
        for model in await self._models():
            if model.id == model_id:
                text = msgspec.json.encode(model).decode()
                return types.ReadResourceResult(
                    contents=[types.TextResourceContents(uri=uri, mime_type=JSON, text=text)]
                )
        message = f"There is no resource {uri[:100]!r}. The method resources/list returns all of them."
        raise MCPError(types.INVALID_PARAMS, message, {"uri": uri[:100]})

    async def _models(self) -> Sequence[ModelInfo]:
        try:
            require_permission(self.caller, Permission.READ_MODELS)
        except ApiError as error:
            raise MCPError(types.INVALID_REQUEST, error.problem.message) from None
        return await list_models(with_members=self.caller.has_permission(Permission.MANAGE_MODELS))


def _tool(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(
            read_only_hint=not tool.changes, destructive_hint=tool.changes and tool.destroys, open_world_hint=False
        ),
    )


def _result(text: bytes, structured: Any = None, *, is_error: bool = False) -> types.CallToolResult:
    content: list[types.ContentBlock] = [types.TextContent(text=text.decode())]
    return types.CallToolResult(content=content, structured_content=structured, is_error=is_error)


def _resource(model: ModelInfo) -> types.Resource:
    abilities = ", ".join(model.capabilities)
    return types.Resource(
        name=model.id,
        uri=MODEL_URI + quote(model.id, safe=""),
        mime_type=JSON,
        description=f"Model for {abilities}; {model.state}.",
    )


class _Exchange:
    """One request of Django's as the ASGI messages of the SDK, and the response that it sends."""

    def __init__(self, request: HttpRequest, body: bytes) -> None:
        self._body: bytes | None = body
        headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in request.headers.items()]
        self.scope: MutableMapping[str, Any] = {
            "type": "http",
            "http_version": "1.1",
            "method": request.method,
            "path": request.path,
            "raw_path": request.path.encode(),
            "query_string": b"",
            "headers": headers,
        }
        self._status, self._headers, self._pieces = 500, dict[str, str](), list[bytes]()

    async def receive(self) -> MutableMapping[str, Any]:
        """Return the body, then nothing: Django cancels the exchange when the client disconnects."""
        if self._body is None:
            await asyncio.Event().wait()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """Collect the response."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in message["headers"]}
        else:
            self._pieces.append(message.get("body", b""))

    def response(self) -> HttpResponse:
        """Return what was sent. An error that the SDK words as text alone becomes one of JSON-RPC."""
        body = b"".join(self._pieces)
        if self._status >= 400 and not self._headers.get("content-type", "").startswith(JSON):
            text = body.decode() or "Send one message with the headers `Accept` and `MCP-Protocol-Version`."
            raise ApiError(self._status, text)
        headers = {name: value for name, value in self._headers.items() if name != "content-length"}
        return HttpResponse(body, status=self._status, headers=headers, content_type=headers.pop("content-type", JSON))
