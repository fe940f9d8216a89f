"""Conversion of DRF's exceptions into Problems."""

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from rest_framework import exceptions
from rest_framework.views import set_rollback

from shared.api.errors import ApiError, Problem, ValidationFailed, problem_response
from shared.observability.request_id import current_request_id


def exception_handler(exc: Exception, context: dict[str, Any]) -> HttpResponse | None:
    """Return the error response, as DRF's EXCEPTION_HANDLER.

    Unexpected exceptions return None: `JsonErrorsMiddleware` logs them and answers.
    """
    problem = _problem(exc)
    if problem is None:
        return None
    set_rollback()
    return problem_response(problem, path=context["request"].path, request_id=current_request_id())


def _problem(exc: Exception) -> Problem | None:
    match exc:
        case ApiError():
            return exc.problem
        case exceptions.ValidationError():
            return validation_problem(exc.detail)
        case Http404() | exceptions.NotFound():
            return Problem.from_status(404)
        case PermissionDenied() | exceptions.PermissionDenied():
            return Problem.from_status(403)
        case exceptions.NotAuthenticated() | exceptions.AuthenticationFailed():
            return Problem.from_status(401, headers={"WWW-Authenticate": "Bearer"})
        case exceptions.APIException():
            problem = Problem.from_status(exc.status_code)
            problem.message = str(exc.detail)
            return problem
    return None


def validation_problem(detail: Any) -> Problem:
    """Return the Problem for DRF's nested error detail, with dotted paths of fields."""
    errors: dict[str, list[str]] = {}
    _collect(detail, "", errors)
    return ValidationFailed(errors).problem


def _collect(detail: Any, path: str, errors: dict[str, list[str]]) -> None:
    if isinstance(detail, dict):
        for key, inner in detail.items():
            _collect(inner, f"{path}.{key}" if path else str(key), errors)
    elif isinstance(detail, list):
        for position, inner in enumerate(detail):
            nested = isinstance(inner, dict | list)
            _collect(inner, f"{path}.{position}" if nested and path else path, errors)
    else:
        errors.setdefault(path or "non_field_errors", []).append(str(detail))
