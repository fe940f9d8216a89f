"""Pages of product texts for shop owners and their staff: their products, and the description writer of one."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from commerce.analytics.dashboard.access import shop_page_context
from commerce.catalog.models import Product
from commerce.catalog.search.services import limit_search, search_all_languages
from commerce.descriptions import services
from shared.accounts.permissions import signed_in_user
from shared.api.admin.base import EstimatedCountPaginator
from shared.api.lists.search import MAX_SEARCH_LENGTH

PAGE_SIZE = 50


def list_texts(request: HttpRequest) -> HttpResponse:
    """Show the products that the user may change, newest first, or those that a search finds."""
    products, text = Product.objects.managed_by(signed_in_user(request)), request.GET.get("search", "").strip()
    if text:
        with limit_search("search"):
            found = search_all_languages(text=text[:MAX_SEARCH_LENGTH], products=products)
        products = products.filter(pk__in=found)
    rows = products.select_related("shop").order_by("-pk")
    page = EstimatedCountPaginator(rows, PAGE_SIZE).get_page(request.GET.get("page"))
    context = shop_page_context(request) | {"title": _("Product texts"), "page": page, "search": text}
    return render(request, "descriptions/shop_texts.html", context)


def show_text(request: HttpRequest, product_id: int) -> HttpResponse:
    """Show a product's description and the writer. Raises ApiError 404 unless the user may change the product."""
    product = services.find_product(user=signed_in_user(request), product_id=product_id)
    context = shop_page_context(request) | {"title": product.name, "product": product}
    return render(request, "descriptions/shop_text.html", context)
