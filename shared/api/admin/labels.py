"""Labels of the admin site, which models and admin classes write in plain English, as translatable texts.

`translate_admin` replaces each label by a lazy translation of its English text, so that the catalogs of the project
translate the pages of every app. Migrations do not see it: they compare what the classes declare.
"""

from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.contrib.admin import AdminSite
from django.contrib.admin.filters import ListFilter
from django.db.models import Field, Model
from django.forms.utils import pretty_name
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

Text = str | Promise
MODEL_NAMES = ("verbose_name", "verbose_name_plural")


def translate_admin(site: AdminSite) -> None:
    """Make every label of the site's pages translatable. A second call changes nothing."""
    for owner, name in _labelled_attributes(site):
        if text := getattr(owner, name, None):
            setattr(owner, name, _lazy(text))
    for model in _shown_models(site):
        if "verbose_name_plural" not in model._meta.original_attrs:  # Django's default stays in English
            model._meta.verbose_name_plural = gettext_lazy(f"{model._meta.verbose_name_raw}s")
    for field in _fields_with_choices(site):
        field.choices = [(value, _lazy(label)) for value, label in field.flatchoices]
    for model_admin in site._registry.values():
        if model_admin.fieldsets:
            registered: Any = model_admin
            registered.fieldsets = [(_lazy(title), options) for title, options in model_admin.fieldsets]


def iterate_labels(site: AdminSite) -> Iterator[Text]:
    """Yield every label of the site's pages that is not empty."""
    for owner, name in _labelled_attributes(site):
        if isinstance(text := getattr(owner, name, None), Text) and text:
            yield text
    for field in _fields_with_choices(site):
        yield from (label for value, label in field.flatchoices if value != "")
    for model_admin in site._registry.values():
        yield from (title for title, _options in model_admin.fieldsets or () if title)


def _labelled_attributes(site: AdminSite) -> Iterator[tuple[Any, str]]:
    """Yield each object that has a label, with the name of the attribute."""
    for model in _shown_models(site):
        yield from ((model._meta, name) for name in MODEL_NAMES)
        for field in _fields(model):
            yield from ((field, name) for name in ("verbose_name", "help_text"))
    for model, model_admin in site._registry.items():
        yield apps.get_app_config(model._meta.app_label), "verbose_name"
        yield model_admin, "search_help_text"
        filters = [each for each in model_admin.list_filter if isinstance(each, type) and issubclass(each, ListFilter)]
        yield from ((each, "title") for each in filters)
        for shown in [model_admin, *model_admin.inlines]:
            yield from ((shown, name) for name in MODEL_NAMES)
            yield from ((function, "short_description") for function in _described_functions(shown))
            for field_name, form_field in getattr(shown.form, "declared_fields", {}).items():
                if form_field.label is None:
                    form_field.label = pretty_name(field_name)  # as Django would show it
                yield from ((form_field, name) for name in ("label", "help_text"))


def _shown_models(site: AdminSite) -> Iterator[type[Model]]:
    for model, model_admin in site._registry.items():
        yield model
        yield from (inline.model for inline in model_admin.inlines)


def _fields(model: type[Model]) -> "Iterator[Field[Any, Any]]":
    return (field for field in model._meta.get_fields() if isinstance(field, Field))


def _fields_with_choices(site: AdminSite) -> Iterator[Any]:
    return (field for model in _shown_models(site) for field in _fields(model) if field.choices)


def _described_functions(model_admin: Any) -> Iterator[Any]:
    """Yield the functions of columns and actions. One without a description gets the one that Django would show."""
    names = [
        name for attribute in ("list_display", "readonly_fields", "actions") for name in _names(model_admin, attribute)
    ]
    admin_class = model_admin if isinstance(model_admin, type) else type(model_admin)
    for name in (name for name in names if name != "__str__"):  # whose label is the name of the model
        function = getattr(admin_class, name, None) if isinstance(name, str) else name
        if callable(function):
            if not hasattr(function, "short_description"):
                function.short_description = pretty_name(function.__name__)
            yield function


def _names(model_admin: Any, attribute: str) -> Any:
    return getattr(model_admin, attribute, None) or ()


def _lazy(text: Any) -> Any:
    return gettext_lazy(text) if isinstance(text, str) and text else text
