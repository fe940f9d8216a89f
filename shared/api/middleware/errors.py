"""Error handling inside Django: every error outside the HTML pages is JSON."""

import logging

from django.conf import settings
from django.core.exceptions import BadRequest, PermissionDenied, SuspiciousOperation
from django.db import Error as DatabaseError
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.html import format_html

from shared.api.errors import ApiError, Problem, problem_response
from shared.middleware import Middleware
from shared.observability.metrics import Counter
from shared.observability.request_id import current_request_id
from shared.s3 import is_transient_s3_error

logger = logging.getLogger("stoa.errors")

DATABASE_FAILURES = Counter(
    "stoa_database_failures_total", "Requests refused with 503 because the database was unavailable."
)

# Browsers show these; their errors stay HTML pages.
HTML_PAGE_PATHS = ("/admin", "/playground", "/shop")
# SQLite's OperationalError includes missing tables; only these messages are transient.
_TRANSIENT_SQLITE_ERRORS = ("locked", "busy", "unable to open", "disk is full", "disk i/o", "readonly")


class JsonErrorsMiddleware(Middleware):
    """Middleware that turns Django's HTML errors and unhandled exceptions into Problems.

    It stands near the top, so that it sees the errors of other middleware.
    """

    def respond(self, request: HttpRequest) -> HttpResponseBase:
        return _as_json(request, self.get_response(request))

    async def arespond(self, request: HttpRequest) -> HttpResponseBase:
        return _as_json(request, await self.get_response(request))

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """Return the response for a view's exception; None for those that Django answers with a 4xx itself."""
        if isinstance(exception, ApiError):
            return (_error_page if is_html_page(request) else _problem_response)(request, exception.problem)
        if isinstance(exception, Http404 | PermissionDenied | SuspiciousOperation | BadRequest):
            return None
        if is_transient_database_error(exception):
            return _problem_response(request, database_unavailable_problem(exception))
        if is_transient_s3_error(exception):
            logger.warning("s3_unavailable", exc_info=exception)
            return _problem_response(request, Problem.from_status(503, headers={"Retry-After": "2"}))
        if is_html_page(request):
            return None
        logger.error("request_failed", exc_info=exception)
        return _problem_response(request, Problem.from_status(500))


def is_transient_database_error(exception: BaseException) -> bool:
    """Return whether the database is busy, locked, full or unreachable, so that the same request may succeed later."""
    if not isinstance(exception, DatabaseError) or not isinstance(exception, OperationalError | InterfaceError):
        return False
    if type(exception.__cause__).__module__.startswith("sqlite3"):
        return any(words in str(exception).lower() for words in _TRANSIENT_SQLITE_ERRORS)
    return True


def database_unavailable_problem(error: BaseException) -> Problem:
    """Log the failure, and return the Problem for the client."""
    DATABASE_FAILURES.add(1)
    logger.warning("database_unavailable", exc_info=error)
    return Problem.from_status(503, headers={"Retry-After": "2"})


def _as_json(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    is_html = response.headers.get("Content-Type", "text/html").startswith("text/html")
    if response.status_code < 400 or not is_html or is_html_page(request):
        return response
    kept = {name: response.headers[name] for name in ("Allow", "Retry-After") if name in response.headers}
    return _problem_response(request, Problem.from_status(response.status_code, headers=kept))


def is_html_page(request: HttpRequest) -> bool:
    """Return whether the request is for an HTML page with a session."""
    is_read = request.path in ("/", settings.DOCS_PATH) and request.method in ("GET", "HEAD")
    return is_read or any(request.path == page or request.path.startswith(f"{page}/") for page in HTML_PAGE_PATHS)


def _problem_response(request: HttpRequest, problem: Problem) -> HttpResponse:
    return problem_response(problem, path=request.path, request_id=current_request_id())


def _error_page(request: HttpRequest, problem: Problem) -> HttpResponse:
    """Return a Problem as an HTML page, as for too many sign-in attempts in the admin."""
    text = format_html("<!doctype html><title>{0}</title><h1>{0}</h1><p>{1}</p>", problem.status, problem.message)
    return HttpResponse(text, status=problem.status, headers=problem.headers)
