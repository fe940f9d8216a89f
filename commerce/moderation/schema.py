"""OpenAPI texts of the routes of reports, decisions, notices and appeals."""

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, PolymorphicProxySerializer, extend_schema, extend_schema_view

from commerce.moderation.serializers import (
    AppealSerializer,
    CaseClaimSerializer,
    DecisionRecordSerializer,
    ModeratedSanctionSerializer,
    SanctionSerializer,
)
from commerce.reviews.serializers import CONTENT_SERIALIZERS

TAGS = ["Moderation"]
MODERATORS_ONLY = "Only moderators and super admins may call this; others get 403."
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
        "or is hidden, and 422 for a `reason` that is not in GET /report-reasons. "
        f"{WRITE_LIMIT}",
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
    hide=extend_schema(
        operation_id="hide_reported_content",
        tags=TAGS,
        summary="Hide reported content for now",
        description="Hides a review or question with open reports until somebody decides about it, and returns the "
        f"decision. Returns 409 if a moderator has hidden it already. {DECISION_ERRORS} {MODERATORS_ONLY}",
        responses=DecisionRecordSerializer,
    ),
    show=extend_schema(
        operation_id="show_reported_content",
        tags=TAGS,
        summary="Show hidden content again",
        description="Shows a hidden review or question again while its reports wait on, and returns the decision. "
        f"Returns 409 for what is not hidden. {DECISION_ERRORS} {MODERATORS_ONLY}",
        responses=DecisionRecordSerializer,
    ),
    escalate=extend_schema(
        operation_id="escalate_reported_content",
        tags=TAGS,
        summary="Leave a case to a super admin",
        description="Escalates a review or question with open reports or an open appeal and returns the decision. Only "
        "super admins can decide about it then; others get 403. Returns 409 for what does not wait or is escalated "
        f"already, and 404 for what does not exist. {MODERATORS_ONLY}",
        responses=DecisionRecordSerializer,
    ),
    claim=extend_schema(
        operation_id="claim_reported_content",
        tags=TAGS,
        summary="Say that you look at a case",
        description="Claims a case for five minutes, or extends your claim, and returns the claim that is valid: of "
        "another moderator, if they were first. A claim informs others and keeps nobody from deciding. Returns 404 for "
        f"what nobody has reported. {MODERATORS_ONLY}",
        responses=CaseClaimSerializer,
    ),
    release=extend_schema(
        operation_id="release_reported_content",
        tags=TAGS,
        summary="End your claim of a case",
        description="Ends your claim, if you have one, and returns `true`. Returns 404 for what nobody has reported. "
        f"{MODERATORS_ONLY}",
        responses=OpenApiTypes.BOOL,
    ),
)

describe_reasons = extend_schema_view(
    list=extend_schema(
        operation_id="report_reasons",
        tags=TAGS,
        summary="List the reasons of reports",
        description="Returns the reasons that a report can have, in the order in which to offer them. Anybody may call "
        "this.",
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
        summary="List appeals",
        description="Returns a page of your own appeals, the newest first. Any signed-in user may call this. "
        "Moderators and super admins get those of everybody with `scope=all`; for others that is 403.",
        parameters=[OpenApiParameter("scope", str, enum=["own", "all"], description="Whose appeals. Default: `own`.")],
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
        description="Returns one of your own appeals; any other is 404 unless you are a moderator.",
    ),
    keep=extend_schema(
        operation_id="keep_removal",
        tags=TAGS,
        summary="Decide an appeal: the content stays down",
        description=f"Decides an open appeal and returns it. Returns 409 for a decided one. {MODERATORS_ONLY}",
        responses=AppealSerializer,
    ),
    overturn=extend_schema(
        operation_id="overturn_removal",
        tags=TAGS,
        summary="Decide an appeal: the content is restored",
        description="Decides an open appeal, restores the content and returns the appeal. Returns 409 for a decided "
        f"one and if the author has written another one since. {MODERATORS_ONLY}",
        responses=AppealSerializer,
    ),
)

SANCTION_TEXT = (
    "A warning forbids nothing, a limit allows three reviews, questions and reports a day, a suspension and a ban "
)
SANCTION_TEXT += "forbid them: they are 403 with `code` `sanctioned` and a `message` that says until when."

describe_sanctions = extend_schema_view(
    list=extend_schema(
        operation_id="sanctions",
        tags=TAGS,
        summary="List sanctions",
        description="Returns a page of sanctions, the newest first: your own, or those of everybody if you are a "
        "moderator or super admin, with `note` and `moderator_id`. Any signed-in user may call this.",
        responses=SanctionSerializer(many=True),
    ),
    create=extend_schema(
        operation_id="impose_sanction",
        tags=TAGS,
        summary="Sanction a user",
        description=f"Creates a sanction and sends its reason to the user. {SANCTION_TEXT} Returns 422 for an unknown "
        "user, for yourself and for `days` that do not fit the kind, 403 for a super admin and, unless you are one, "
        f"for a moderator, and 409 while the same kind is in force. {MODERATORS_ONLY}",
    ),
    retrieve=extend_schema(
        operation_id="sanction",
        tags=TAGS,
        summary="Get a sanction",
        description="Returns one of your own sanctions; any other is 404 unless you are a moderator or super admin.",
        responses=SanctionSerializer,
    ),
    destroy=extend_schema(
        operation_id="lift_sanction",
        tags=TAGS,
        summary="Lift a sanction",
        description="Ends a sanction now and returns `true`; an open appeal against it is overturned. Returns 409 "
        f"for a sanction that is over, and 403 for your own. {MODERATORS_ONLY}",
        responses=OpenApiTypes.BOOL,
    ),
    keep=extend_schema(
        operation_id="keep_sanction",
        tags=TAGS,
        summary="Decide an appeal: the sanction stays",
        description="Decides the open appeal against a sanction and returns the sanction. Returns 409 without an open "
        f"appeal, and 403 for your own. {MODERATORS_ONLY}",
        request=None,
        responses=ModeratedSanctionSerializer,
    ),
    appeal=extend_schema(
        operation_id="appeal_sanction",
        tags=TAGS,
        summary="Appeal against a sanction",
        description="Appeals against one of your own sanctions, once, and returns it. Returns 404 for another user's, "
        f"and 409 for another appeal and for a sanction that is over. {WRITE_LIMIT}",
        responses=SanctionSerializer,
    ),
)
