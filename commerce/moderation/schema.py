"""OpenAPI texts of the routes of reports, decisions, notices and appeals."""

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema, extend_schema_view

from commerce.moderation.serializers import DecisionRecordSerializer
from commerce.reviews.serializers import CONTENT_SERIALIZERS

TAGS = ["Moderation"]
MODERATORS_ONLY = "Only super admins may call this; others get 403."
WRITE_LIMIT = "Returns 429 after five reviews, questions, reports and appeals a minute."
DECISION_ERRORS = (
    "Returns 404 for content that does not exist or is taken down, until it is restored, and for another kind of "
    "content."
)
CONTENT = PolymorphicProxySerializer(
    component_name="ReportedContent", serializers=list(CONTENT_SERIALIZERS.values()), resource_type_field_name=None
)

describe_reports = extend_schema_view(
    list=extend_schema(
        operation_id="abuse_reports",
        tags=TAGS,
        summary="List reports",
        description="Returns a page of reports, the newest first: the open ones unless you send a `status`. "
        f"{MODERATORS_ONLY}",
    ),
    create=extend_schema(
        operation_id="report_abuse",
        tags=TAGS,
        summary="Report a review or a question",
        description="Creates a report of a visible review or question and returns it. Any signed-in user may call "
        "this, once for each review or question; another report is 409. Returns 404 for content that does not exist "
        f"or is hidden. {WRITE_LIMIT}",
    ),
    retrieve=extend_schema(
        operation_id="abuse_report",
        tags=TAGS,
        summary="Get a report",
        description=f"Returns one report with any status. {MODERATORS_ONLY}",
    ),
    destroy=extend_schema(
        operation_id="delete_abuse_report",
        tags=TAGS,
        summary="Delete a report",
        description="Deletes one report and returns `true`. The content and its other reports stay as they are; "
        f"without another open report, hidden content is shown again. {MODERATORS_ONLY}",
    ),
    accept=extend_schema(
        operation_id="accept_abuse_reports",
        tags=TAGS,
        summary="Take reported content down",
        description="Removes a review or question from all lists and ratings, accepts its open reports and returns "
        "`true`. The author and the reporters get a notice once the decision can no longer be undone. "
        f"{DECISION_ERRORS} {MODERATORS_ONLY}",
        responses=OpenApiTypes.BOOL,
    ),
    reject=extend_schema(
        operation_id="reject_abuse_reports",
        tags=TAGS,
        summary="Keep reported content",
        description="Keeps a review or question, shows it again if it was hidden, deletes its open reports and returns "
        "it. Content that was kept before and not reported since stays as it is. The reporters get a notice once the "
        "decision can no longer be undone. "
        f"{DECISION_ERRORS} {MODERATORS_ONLY}",
        responses=CONTENT,
    ),
)

describe_decisions = extend_schema_view(
    list=extend_schema(
        operation_id="decisions",
        tags=TAGS,
        summary="List decisions",
        description="Returns a page of the decisions of moderators and rules, the newest first. Filter by `model_type` "
        f"and `model_id` to find those about one review or question. {MODERATORS_ONLY}",
    ),
    retrieve=extend_schema(
        operation_id="decision",
        tags=TAGS,
        summary="Get a decision",
        description=f"Returns one decision with the content as it was before. {MODERATORS_ONLY}",
    ),
    undo=extend_schema(
        operation_id="undo_decision",
        tags=TAGS,
        summary="Undo a decision",
        description="Restores content, reports and reporters as they were before the decision and returns it. Returns "
        "409 after `undo_until`, if there is a later decision about the content, and if its author has deleted it "
        f"since. {MODERATORS_ONLY}",
        request=None,
        responses=DecisionRecordSerializer,
    ),
    restore=extend_schema(
        operation_id="restore_content",
        tags=TAGS,
        summary="Restore content that was taken down",
        description="Restores the content of a decision, at any time after it was taken down, deletes its accepted "
        "reports and returns the new decision. Returns 409 unless a moderator took it down, while an appeal is open, "
        f"and if the author has written another one since. {MODERATORS_ONLY}",
        request=None,
        responses=DecisionRecordSerializer,
    ),
)

describe_own_reports = extend_schema_view(
    list=extend_schema(
        operation_id="my_reports",
        tags=TAGS,
        summary="List your reports",
        description="Returns a page of your own reports with their status, the newest first. Any signed-in user may "
        "call this. Reports of content that was kept are deleted; a notice says so.",
    ),
)

describe_notices = extend_schema_view(
    list=extend_schema(
        operation_id="notices",
        tags=TAGS,
        summary="List your notices",
        description="Returns a page of the notices to you about decisions on what you wrote or reported, the newest "
        "first. Any signed-in user may call this. A notice appears once its decision can no longer be undone.",
    ),
    retrieve=extend_schema(
        operation_id="notice",
        tags=TAGS,
        summary="Get a notice",
        description="Returns one of your own notices; any other is 404.",
    ),
)

describe_appeals = extend_schema_view(
    list=extend_schema(
        operation_id="appeals",
        tags=TAGS,
        summary="List your appeals",
        description="Returns a page of your own appeals, the newest first. Any signed-in user may call this.",
    ),
    create=extend_schema(
        operation_id="appeal",
        tags=TAGS,
        summary="Appeal against a removal",
        description="Creates an appeal against the removal that one of your notices reports, and returns it. You may "
        "appeal once for each removal, until the `appeal_until` of the notice. Returns 404 for a notice that is not "
        "yours, and 409 for another appeal, after `appeal_until` and if the content was restored. "
        f"{WRITE_LIMIT}",
    ),
    retrieve=extend_schema(
        operation_id="read_appeal",
        tags=TAGS,
        summary="Get an appeal",
        description="Returns one of your own appeals; any other is 404.",
    ),
)
