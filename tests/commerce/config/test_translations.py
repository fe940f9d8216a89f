"""The catalogs of the admin have every text of their apps in each offered language, compiled, and nothing else.

The catalog of `commerce/config` has the texts of the apps without one of their own, the labels and those of the theme.
"""

import ast
import gettext
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import unfold
from django.conf import settings
from django.contrib import admin
from django.utils import translation
from django.utils.translation.template import templatize
from django.utils.translation.trans_real import DjangoTranslation

import commerce
import commerce.config.urls  # translates the labels
import shared
from shared.api.admin.labels import iterate_labels

ROOT = Path(commerce.__file__).parent
CATALOGS = sorted(ROOT.glob("*/locale/*/LC_MESSAGES/django.po"))
SITE_CATALOGS = [path for path in CATALOGS if path.parents[3].name == "config"]
APP_CATALOGS = [path for path in CATALOGS if path not in SITE_CATALOGS]
DJANGO_ADMIN = Path(admin.__file__).parent
THEME = Path(unfold.__file__).parent
GETTEXT_NAMES = {"_", "gettext", "gettext_lazy", "gettext_noop", "ngettext", "ngettext_lazy"}
ERROR_NAMES = {"ApiError", "Conflict"}
ENTRY = re.compile(r'^msgid "(.+)"\n(?:msgid_plural "(.+)"\n)?((?:msgstr.*\n?)+)', re.MULTILINE)
# A number for each plural form, in the order of the catalog.
FORM_NUMBERS = {"de": (1, 2), "es": (1, 1_000_000, 2)}
TEMPLATE_CALL = re.compile(r"\b(?:n?gettext|_)\((?:u?'((?:[^'\\]|\\.)*)'|u?\"((?:[^\"\\]|\\.)*)\")")

pytestmark = pytest.mark.no_database


def app_and_language(catalog: Path) -> str:
    return f"{catalog.parents[3].name}-{language_of(catalog)}"


def language_of(catalog: Path) -> str:
    return catalog.parents[1].name


def calls(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the name of each called function with the text that is its first or second argument."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            texts = [argument.value for argument in node.args[:2] if isinstance(argument, ast.Constant)]
            if text := next((text for text in texts if isinstance(text, str)), None):
                yield name, text


def patterns(path: Path) -> Iterator[str]:
    """Yield a regular expression for each text of a module; f-strings have any text in their placeholders."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.escape(node.value)
        if isinstance(node, ast.JoinedStr):
            parts = [re.escape(part.value) if isinstance(part, ast.Constant) else ".+" for part in node.values]  # type: ignore[arg-type]
            yield "".join(parts)


def modules(app: Path) -> Iterator[Path]:
    return (path for path in app.rglob("*.py") if "migrations" not in path.parts)


def texts_of_template(path: Path) -> Iterator[str]:
    for single, double in TEMPLATE_CALL.findall(templatize(path.read_text())):  # type: ignore[no-untyped-call]
        yield (single or double).encode().decode("unicode_escape").encode("latin-1").decode()


def texts_of_app(app: Path) -> set[str]:
    texts = {text for path in modules(app) for name, text in calls(path) if name in GETTEXT_NAMES}
    return texts | {text for path in app.rglob("*.html") for text in texts_of_template(path)}


def entries(catalog: Path) -> dict[str, tuple[str, list[str]]]:
    """Return the plural and the translations of each text."""
    return {
        english: (plural, re.findall(r'"(.*)"', translations))
        for english, plural, translations in ENTRY.findall(catalog.read_text())
    }


def test_every_app_with_a_catalog_has_one_in_each_offered_language():
    apps = {catalog.parents[3].name for catalog in CATALOGS}
    offered = {code for code, _name in settings.LANGUAGES if code != "en"}

    assert sorted(map(app_and_language, CATALOGS)) == sorted(f"{app}-{code}" for app in apps for code in offered)


@pytest.mark.parametrize("catalog", APP_CATALOGS, ids=app_and_language)
def test_a_catalog_has_each_text_of_its_app_once_and_no_other(catalog: Path):
    english = [english for english, _plural, _translations in ENTRY.findall(catalog.read_text())]
    texts = texts_of_app(catalog.parents[3])

    assert sorted(texts - set(english)) == []
    # Errors of services are translated where a page shows them, by their text.
    known = {pattern for path in modules(catalog.parents[3]) for pattern in patterns(path)}
    assert [text for text in set(english) - texts if not any(re.fullmatch(one, text) for one in known)] == []
    assert len(english) == len(set(english))
    assert not re.search(r"^#(,.*fuzzy|~)", catalog.read_text(), re.MULTILINE)


@pytest.mark.parametrize("catalog", SITE_CATALOGS, ids=language_of)
def test_the_catalog_of_the_site_has_each_text_of_the_other_apps_and_no_unused_one(catalog: Path):
    own = {path.parents[3] for path in APP_CATALOGS}
    others = [app for root in (ROOT, Path(shared.__file__).parent) for app in root.iterdir() if app.is_dir()]
    texts = {text for app in others if app not in own for text in texts_of_app(app)}
    english = [english for english, _plural, _translations in ENTRY.findall(catalog.read_text())]

    known = DjangoTranslation(language_of(catalog))._catalog
    assert sorted(text for text in texts - set(english) if text not in known) == []
    with translation.override("en"):
        labels = {str(label) for label in iterate_labels(admin.site)}
    pages = texts_of_app(THEME) | texts_of_app(DJANGO_ADMIN)
    assert sorted(set(english) - texts - labels - pages) == []
    assert len(english) == len(set(english))


@pytest.mark.parametrize("catalog", CATALOGS, ids=app_and_language)
def test_every_translation_keeps_the_placeholders_and_is_compiled(catalog: Path):
    with catalog.with_suffix(".mo").open("rb") as compiled:
        translations = gettext.GNUTranslations(compiled)

    for english, (plural, translated) in entries(catalog).items():
        forms = [translations.ngettext(english, plural, n) for n in FORM_NUMBERS[language_of(catalog)]]
        shown = forms if plural else [translations.gettext(english)]
        assert shown == translated, english
        assert all(translated)
        for text in translated:
            assert set(re.findall(r"%\(\w+\)[sd]", text)) == set(re.findall(r"%\(\w+\)[sd]", english)), english


@pytest.mark.parametrize(
    "catalog", [path for path in CATALOGS if path.parents[3].name == "moderation"], ids=language_of
)
def test_moderators_read_every_error_of_moderation_in_their_language(catalog: Path):
    errors = {text for path in modules(catalog.parents[3]) for name, text in calls(path) if name in ERROR_NAMES}

    assert len(errors) > 15
    assert sorted(errors - set(entries(catalog))) == []
