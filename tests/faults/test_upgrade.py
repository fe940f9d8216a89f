"""Row N15: the previous release works on the migrated tables, since both versions serve during an upgrade.

`deploy/run bench upgrade` upgrades that release itself, under load. This compares the tables of its last migrations
with those of this version: what it inserts, reads and deletes must work on both.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commerce.live_server import shop_environment
from tests.faults.conftest import StartPostgresql
from tests.faults.test_migrations import run_script

# The last migrations of 1.0.0.
RELEASED = {
    "accounts": "0012_second_factor",
    "api": "0002_kept_answers",
    "audit": "0001_initial",
    "commerce_addresses": "0001_initial",
    "commerce_analytics": "0005_sales_reports",
    "commerce_attachments": "0008_files_of_staff",
    "commerce_attributes": "0001_initial",
    "commerce_catalog": "0007_best_selling",
    "commerce_descriptions": "0009_checked_drafts",
    "commerce_moderation": "0014_suggestions",
    "commerce_orders": "0003_parts_of_a_customer",
    "commerce_reviews": "0004_text_indexes",
    "commerce_search": "0002_vectors",
    "commerce_shops": "0007_attachment_quota",
    "commerce_site_settings": "0001_initial",
    "commerce_webhooks": "0001_initial",
    "inference_batches": "0006_unaccepted_index",
    "inference_files": "0002_help_texts",
    "inference_openai_batches": "0002_field_names",
    "inference_pools": "0001_initial",
    "inference_registry": "0002_desired_model",
    "inference_responses": "0002_turns",
    "inference_streams": "0001_initial",
    "inference_traces": "0001_initial",
    "inference_usage": "0002_verbose_name",
    "inference_webhooks": "0002_labels",
}
# Constraints that the release cannot violate, although it does not know them.
HARMLESS_CONSTRAINTS = {"inference_pools_local_member_once"}  # its members are other servers
# Tables whose rows the release deletes. A reference of this version to them may stop that.
DELETED_FROM = {
    "accounts_secondfactor",
    "accounts_signin",
    "accounts_signinnetwork",
    "api_keyedrequest",
    "commerce_addresses_address",
    "commerce_analytics_chainshop",
    "commerce_analytics_entry",
    "commerce_analytics_firstorder",
    "commerce_analytics_salesreport",
    "commerce_attachments_attachment",
    "commerce_attachments_leftover",
    "commerce_attributes_attribute",
    "commerce_attributes_attributevalue",
    "commerce_catalog_category",
    "commerce_catalog_productvalue",
    "commerce_catalog_variationvalue",
    "commerce_descriptions_descriptiondraft",
    "commerce_moderation_abusereport",
    "commerce_moderation_casevector",
    "commerce_moderation_notice",
    "commerce_moderation_suggestionmodel",
    "commerce_search_embeddingmodel",
    "commerce_search_productvector",
    "commerce_search_searchdocument",
    "commerce_shops_shopstaff",
    "commerce_shops_staffinvitation",
    "inference_batches_batch",
    "inference_batches_batchrequest",
    "inference_batches_batchresult",
    "inference_batches_lease",
    "inference_files_storedfile",
    "inference_openai_batches_filebatch",
    "inference_pools_poolmember",
    "inference_responses_conversation",
    "inference_responses_conversationitem",
    "inference_responses_storedresponse",
    "inference_streams_storedstream",
    "inference_streams_streamsegment",
    "inference_traces_span",
    "inference_webhooks_attempt",
    "inference_webhooks_delivery",
    "inference_webhooks_endpoint",
}
# References that are made by means of this version only, as docs/operator/upgrade.md says.
REFERENCES_OF_NEW_FEATURES = {"inference_openai_batches_handover.job_id"}

# Migrates to the release and then to this version. Prints the tables of both.
COMPARE_TABLES = """
import json
import sys
import django
django.setup()
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

COLUMNS = {
    "sqlite": "SELECT name, type, NOT \\"notnull\\", dflt_value FROM pragma_table_info(%s)",
    "postgresql": "SELECT column_name, concat(data_type, character_maximum_length), is_nullable = 'YES', "
    "coalesce(column_default, identity_generation) FROM information_schema.columns WHERE table_name = %s",
}[connection.vendor]

def describe():
    tables = {}
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(COLUMNS, [table])
            columns = {name: [kind, bool(null), default] for name, kind, null, default in cursor.fetchall()}
            constraints = connection.introspection.get_constraints(cursor, table)
            rules = {
                name: found["columns"] for name, found in constraints.items() if found["unique"] or found["check"]
            }
            references = {
                found["columns"][0]: found["foreign_key"][0]
                for found in constraints.values() if found["foreign_key"]
            }
            tables[table] = {"columns": columns, "rules": rules, "references": references}
    return tables

released = json.loads(sys.argv[1])
executor = MigrationExecutor(connection)
leaves = executor.loader.graph.leaf_nodes()
own = {label for label, name in leaves if executor.loader.graph.nodes[label, name].__module__.partition(".")[0]
       in ("shared", "commerce", "inference")}
targets = [(label, name) for label, name in leaves if label not in own]
targets += [(label, name) for label, name in released.items() if label in own]
executor.migrate(targets)
before = describe()
call_command("migrate", verbosity=0)
print(json.dumps([before, describe()]))
"""


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="stoa") as folder:
        yield Path(folder)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("project", ["commerce", "inference"])
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_n15_the_previous_release_works_on_the_migrated_tables(
    home: Path, database: str, project: str, request: pytest.FixtureRequest
):
    environment = shop_environment(str(home)) | {"DJANGO_SETTINGS_MODULE": f"{project}.config.settings.test"}
    if database == "postgresql":
        start: StartPostgresql = request.getfixturevalue("start_postgresql")
        environment["DATABASE_URL"] = start().url

    before, after = run_script(COMPARE_TABLES, environment, json.dumps(RELEASED))

    assert len(before) > 15
    assert list(changes(before, after)) == []


def changes(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """Yield what the release cannot work with."""
    for table, released in before.items():
        if table not in after:
            yield f"{table} is missing"
            continue
        columns = after[table]["columns"]
        for name, (kind, was_nullable, _) in released["columns"].items():
            if name not in columns:
                yield f"{table}.{name} is missing"
            elif columns[name][0] != kind:
                yield f"{table}.{name} was {kind} and is {columns[name][0]}"
            elif was_nullable and not columns[name][1]:
                yield f"{table}.{name} may no longer be null"
        for name in columns.keys() - released["columns"].keys():
            if not columns[name][1] and columns[name][2] is None:
                yield f"{table}.{name} has neither null nor a default of the database"
        for name, constrained in after[table]["rules"].items():
            is_known = (
                name in released["rules"] or name in HARMLESS_CONSTRAINTS or constrained in released["rules"].values()
            )
            if not is_known and set(constrained) & released["columns"].keys():
                yield f"{table} has the new constraint {name} of {constrained}"
    for table, present in after.items():
        known = before.get(table, {}).get("references", {})
        for column, referenced in present["references"].items():
            is_new = column not in known and f"{table}.{column}" not in REFERENCES_OF_NEW_FEATURES
            if is_new and referenced in DELETED_FROM:
                yield f"{table}.{column} refers to {referenced}, whose rows the release deletes"
