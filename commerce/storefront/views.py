"""Views of the storefront. Everybody may read them; they need no session and no script."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from commerce.catalog.models import Product
from commerce.catalog.search.services import similar_products
from commerce.storefront.cards import ProductCard
from commerce.storefront.listing import open_listing
from shared.api.errors import ValidationFailed
from shared.api.query_params import parse_language

MAX_SIMILAR = 6

View = Callable[..., HttpResponse]


def _with_error_page(view: View) -> View:
    """Show an invalid query as a page."""

    @wraps(view)
    def wrapped(request: HttpRequest, **path: Any) -> HttpResponse:
        try:
            return view(request, **path)
        except ValidationFailed as failure:
            errors = failure.problem.errors or {}
            messages = [f"{name}: {text}" for name, texts in errors.items() for text in texts]
            context = {"title": "This search cannot be done", "messages": messages}
            return render(request, "storefront/message.html", context, status=422)

    return wrapped


@require_safe
def add_slash(request: HttpRequest) -> HttpResponse:
    return redirect(f"{reverse('storefront')}?{request.META['QUERY_STRING']}")


@require_safe
@_with_error_page
def products(request: HttpRequest) -> HttpResponse:
    """Return the page of a search, or of all products, newest first."""
    return render(request, "storefront/products.html", {"listing": open_listing(request)})


@require_safe
@_with_error_page
def product(request: HttpRequest, slug: str) -> HttpResponse:
    """Return the page of a product with those that resemble it."""
    public = Product.objects.public().for_response()
    shown = public.filter(slug=slug, language=parse_language(request.GET.get("language", "")))
    found = shown.select_related("shop", "type").prefetch_related("categories", "tags", "variations").first()
    if found is None:
        missing = {"title": "There is no such product", "messages": ["It may have been sold out and taken off sale."]}
        return render(request, "storefront/message.html", missing, status=404)
    similar = similar_products(product=found, products=public, limit=MAX_SIMILAR)
    card = ProductCard(found, request)
    context: dict[str, Any] = {
        "card": card,
        "product": found,
        "variations": [
            (variation, card.money(variation.selling_price))
            for variation in found.variations.all()
            if variation.deleted_at is None
        ],
        "similar": [ProductCard(other, request) for other in similar],
    }
    return render(request, "storefront/product.html", context)
