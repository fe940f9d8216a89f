"""POST /generate-descriptions, answered whole or as a stream, by a coroutine that ends when its client leaves; and what
is left of the day's allowance."""

from typing import Any

from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from commerce.catalog.models import Product
from commerce.descriptions import allowances, services
from commerce.descriptions.allowances import Holder, holder_of
from commerce.descriptions.serializers import (
    AllowanceQuerySerializer,
    AllowanceSerializer,
    DescriptionRequestSerializer,
    DescriptionSerializer,
)
from commerce.descriptions.streaming import STREAM_HEADERS, DescriptionEvents
from commerce.descriptions.threads import in_thread
from shared.accounts.models import User
from shared.accounts.permissions import HasRole
from shared.api.idempotency import Idempotency

# One event of the stream, as readers of such streams see it.
EVENT = {
    "type": "object",
    "required": ["data"],
    "properties": {"data": {"type": "string", "contentMediaType": "application/json"}},
}


class AsyncAPIView(APIView):
    """DRF's view for coroutine handlers: who asks and what they may is looked up in a thread, the rest is awaited."""

    async def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:  # type: ignore[override]
        self.args, self.kwargs = args, kwargs
        self.request = self.initialize_request(request, *args, **kwargs)
        self.headers = self.default_response_headers
        try:
            await in_thread(self.initial, self.request, *args, **kwargs)
            method = str(self.request.method).lower()
            allowed = method in self.http_method_names
            handler: Any = getattr(self, method) if allowed else self.http_method_not_allowed
            response = await handler(self.request, *args, **kwargs)
        except Exception as error:  # as in DRF's own dispatch: the exception handler answers, or raises it again
            response = self.handle_exception(error)
        self.response = self.finalize_response(self.request, response, *args, **kwargs)
        return self.response


class GenerateDescriptionView(AsyncAPIView):
    """Writes a product description, for store owners and staff. With `stream` the answer is a stream of events,
    `{"text": ...}` for each piece and `{"done": true, "description": ...}` at the end. It counts for the day's
    allowance of the product's shop, or else of your first; what fails does not."""

    permission_classes = [HasRole.of("STORE_OWNER", "STAFF")]
    http_method_names = ["post"]
    idempotency = Idempotency.NEVER  # it may be a stream

    @extend_schema(
        operation_id="generate_description",
        tags=["AI"],
        summary="Write a product description",
        request=DescriptionRequestSerializer,
        responses={
            (200, "application/json"): DescriptionSerializer,
            (200, "text/event-stream"): EVENT,
        },
    )
    async def post(self, request: Request) -> HttpResponseBase:
        asked = DescriptionRequestSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        product_id = asked.validated_data.get("product_id")
        product, holder = await in_thread(_whose, user=request.auth.user, product_id=product_id)
        if asked.validated_data["stream"]:
            return await self._stream(asked, product, holder)
        text = await services.write_description(brief=asked.brief(), holder=holder, now=timezone.now())
        return Response(await self._answer(asked, product, text))

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        """`stream` decides, not the Accept header: a client of event streams asks for those, and errors are JSON."""
        return super().perform_content_negotiation(request, force=True)

    async def _stream(
        self, asked: DescriptionRequestSerializer, product: Product | None, holder: Holder
    ) -> HttpResponseBase:
        async def finish(text: str) -> dict[str, Any]:
            return await self._answer(asked, product, text)

        pieces = services.stream_description(brief=asked.brief(), holder=holder, now=timezone.now())
        events = DescriptionEvents(pieces, finish)
        await events.start()
        return StreamingHttpResponse(events, content_type="text/event-stream", headers=STREAM_HEADERS)

    async def _answer(self, asked: DescriptionRequestSerializer, product: Product | None, text: str) -> dict[str, Any]:
        """The answer's fields; with a product, the text is first kept as its draft."""
        answer: dict[str, Any] = {"description": text, "status": "success", "result": text}
        if product:
            author, brief = self.request.auth.user, asked.brief()
            draft = await in_thread(
                services.save_draft, product=product, author=author, brief=brief, text=text, now=timezone.now()
            )
            answer["draft_id"] = draft.pk
        return answer


class AllowanceView(APIView):
    """How many descriptions a shop has asked for today, and may still ask for."""

    permission_classes = [HasRole.of("STORE_OWNER", "STAFF")]

    @extend_schema(
        operation_id="description_allowance",
        tags=["AI"],
        summary="Read what is left of the day's allowance",
        parameters=[AllowanceQuerySerializer],
        responses=AllowanceSerializer,
    )
    def get(self, request: Request) -> Response:
        asked = AllowanceQuerySerializer(data=request.query_params)
        asked.is_valid(raise_exception=True)
        _, holder = _whose(user=request.auth.user, product_id=asked.validated_data.get("product_id"))
        return Response(AllowanceSerializer(allowances.read(holder=holder, now=timezone.now())).data)


def _whose(*, user: User, product_id: int | None) -> tuple[Product | None, Holder]:
    """The product, where one is named, and whose allowance counts. Raises ApiError 404."""
    product = services.find_product(user=user, product_id=product_id) if product_id else None
    return product, holder_of(user=user, product=product)
