"""View of POST /generate-descriptions: a coroutine that answers whole or as a stream, and stops with its client."""

from typing import Any

from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from commerce.catalog.models import Product
from commerce.descriptions import quotas, schema, services
from commerce.descriptions.quotas import QuotaOwner
from commerce.descriptions.serializers import DescriptionRequestSerializer
from commerce.descriptions.services import Description
from commerce.descriptions.streaming import STREAM_HEADERS, DescriptionEvents, sentence_events
from shared.accounts.models import User
from shared.accounts.permissions import HasRole
from shared.api.idempotency.store import IdempotencyMode
from shared.request_threads import run_in_request_thread


class AsyncAPIView(APIView):
    """An APIView with coroutine handlers. Authentication and permissions run in a thread."""

    async def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:  # type: ignore[override]
        self.args, self.kwargs = args, kwargs
        self.request = self.initialize_request(request, *args, **kwargs)
        self.headers = self.default_response_headers
        try:
            await run_in_request_thread(self.initial, self.request, *args, **kwargs)
            method = str(self.request.method).lower()
            is_allowed = method in self.http_method_names
            handler: Any = getattr(self, method) if is_allowed else self.http_method_not_allowed
            response = await handler(self.request, *args, **kwargs)
        except Exception as error:  # as in DRF's dispatch: the exception handler answers or raises it again
            response = self.handle_exception(error)
        self.response = self.finalize_response(self.request, response, *args, **kwargs)
        return self.response


@schema.describe_generation
class GenerateDescriptionView(AsyncAPIView):
    permission_classes = [HasRole.of("STORE_OWNER", "STAFF", "SUPER_ADMIN")]
    http_method_names = ["post"]
    idempotency = IdempotencyMode.DISABLED  # a stream cannot be replayed

    async def post(self, request: Request) -> HttpResponseBase:
        serializer = DescriptionRequestSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        product_id = serializer.validated_data.get("product_id")
        product, owner = await run_in_request_thread(
            _find_product_and_owner, user=request.auth.user, product_id=product_id
        )
        if serializer.validated_data["stream"]:
            return await self._stream(serializer, product, owner)
        description = await services.write_description(request=serializer.to_request(), owner=owner, now=timezone.now())
        return Response(await self._finish(serializer, product, description))

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        """Ignore the Accept header: `stream` selects the media type, and errors are JSON even for SSE clients."""
        return super().perform_content_negotiation(request, force=True)

    async def _stream(
        self, serializer: DescriptionRequestSerializer, product: Product | None, owner: QuotaOwner
    ) -> HttpResponseBase:
        request, now = serializer.to_request(), timezone.now()
        if request.product_name:  # checked as a whole before any of it is shown
            description = await services.write_description(request=request, owner=owner, now=now)
            body = await self._finish(serializer, product, description)
            return StreamingHttpResponse(
                sentence_events(description.text, body), content_type="text/event-stream", headers=STREAM_HEADERS
            )

        async def finish(text: str) -> dict[str, Any]:
            return await self._finish(serializer, product, Description(text=text, is_checked=False))

        events = DescriptionEvents(services.stream_description(request=request, owner=owner, now=now), finish)
        await events.start()
        return StreamingHttpResponse(events, content_type="text/event-stream", headers=STREAM_HEADERS)

    async def _finish(
        self, serializer: DescriptionRequestSerializer, product: Product | None, description: Description
    ) -> dict[str, Any]:
        """Save the text as a draft where a product is named, and return the fields of the response."""
        body: dict[str, Any] = {"description": description.text, "status": "success", "result": description.text}
        body |= {"fallback": True} if description.is_fallback else {}
        body |= {} if description.is_checked else {"unchecked": True}
        if product:
            draft = await run_in_request_thread(
                services.save_draft,
                product=product,
                author=self.request.auth.user,
                request=serializer.to_request(),
                text=description.text,
                is_fallback=description.is_fallback,
                now=timezone.now(),
            )
            body["draft_id"] = draft.pk
        return body


def _find_product_and_owner(*, user: User, product_id: int | None) -> tuple[Product | None, QuotaOwner]:
    """Return the product, if one is named, and the owner of the quota. Raise ApiError 404."""
    product = services.find_product(user=user, product_id=product_id) if product_id else None
    return product, quotas.find_owner(user=user, product=product)
