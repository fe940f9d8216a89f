"""OpenAPI texts of the routes of reviews and questions."""

from drf_spectacular.utils import extend_schema, extend_schema_view

REVIEW_TAGS = ["Reviews"]
QUESTION_TAGS = ["Questions"]
HELD = "What a rule of the moderators holds is returned as well, and is public once a moderator has kept it."
WRITE_LIMIT = "Returns 429 after five reviews, questions, reports and appeals a minute."

describe_reviews = extend_schema_view(
    list=extend_schema(
        operation_id="reviews",
        tags=REVIEW_TAGS,
        summary="List reviews",
        description="Returns a page of the visible reviews, newest first. No credentials are needed. Filter by "
        "product, shop or rating.",
    ),
    create=extend_schema(
        operation_id="write_review",
        tags=REVIEW_TAGS,
        summary="Review a product",
        description="Creates a review of a product that is for sale and returns it. Any signed-in user may call this, "
        "once for each of their orders with the product and once without an order; another review is 409. Returns 404 "
        "for an order of another customer, and 422 for an order without the product and for photos that you did not "
        f"upload. {HELD} {WRITE_LIMIT}",
    ),
    retrieve=extend_schema(
        operation_id="review",
        tags=REVIEW_TAGS,
        summary="Get a review",
        description="Returns one visible review. No credentials are needed. Hidden and deleted reviews are 404.",
    ),
    destroy=extend_schema(
        operation_id="delete_review",
        tags=REVIEW_TAGS,
        summary="Delete a review",
        description="Deletes a review, takes its rating off the product and returns `true`. Its author and super "
        "admins may call this; others get 404. A super admin's deletion is the acceptance of its reports: the author "
        "gets a notice and may appeal, and the decision can be undone.",
    ),
)

describe_questions = extend_schema_view(
    list=extend_schema(
        operation_id="questions",
        tags=QUESTION_TAGS,
        summary="List questions",
        description="Returns a page of the visible questions with their answers, newest first. No credentials are "
        "needed. Filter by product or shop.",
    ),
    create=extend_schema(
        operation_id="ask_question",
        tags=QUESTION_TAGS,
        summary="Ask about a product",
        description="Creates a question to the shop about a product that is for sale and returns it. Any signed-in "
        f"user may call this. {HELD} {WRITE_LIMIT}",
    ),
    retrieve=extend_schema(
        operation_id="question",
        tags=QUESTION_TAGS,
        summary="Get a question",
        description="Returns one visible question. No credentials are needed. Hidden and deleted questions are 404.",
    ),
    update=extend_schema(
        operation_id="answer_question",
        tags=QUESTION_TAGS,
        summary="Answer a question",
        description="Sets the shop's answer, which replaces an earlier one, and returns the question. The owner and "
        "the staff of the shop and super admins may call this; others get 403 or 404.",
    ),
    destroy=extend_schema(
        operation_id="delete_question",
        tags=QUESTION_TAGS,
        summary="Delete a question",
        description="Deletes a question with its answer and returns `true`. Its author and super admins may call this; "
        "others get 404.",
    ),
)

describe_my_questions = extend_schema_view(
    list=extend_schema(
        operation_id="my_questions",
        tags=QUESTION_TAGS,
        summary="List your questions",
        description="Returns a page of the questions that you asked, with their answers, newest first. Any signed-in "
        "user may call this. Questions that are hidden until a moderator decides are among them, deleted ones are not.",
    )
)
