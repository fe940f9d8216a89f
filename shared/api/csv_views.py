"""Base classes of the views that send and receive CSV files."""

from collections.abc import Iterator
from typing import Any

from django.http import StreamingHttpResponse
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.views import APIView

from shared.request_threads import response_chunks


class CsvExportView(APIView):
    """Download of a CSV file, which is sent while it is made."""

    def csv_response(self, request: Request, chunks: Iterator[bytes], file_name: str) -> StreamingHttpResponse:
        """Return the response with these chunks; their iterator must not keep a cursor open between two of them."""
        return StreamingHttpResponse(
            response_chunks(request._request, chunks),
            content_type="text/csv; charset=utf-8",
            headers={"Content-Disposition": f'attachment; filename="{file_name}"'},
        )

    def perform_content_negotiation(self, request: Request, force: bool = False) -> Any:
        """Answer in CSV whatever the Accept header says, as a browser's link sends it; errors are JSON."""
        return super().perform_content_negotiation(request, force=True)


class CsvImportView(APIView):
    """Upload of a CSV file in a form."""

    parser_classes = [MultiPartParser]
