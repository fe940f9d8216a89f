"""OpenAPI texts of the routes of shops, staff, invitations and the signed-in user."""

from collections.abc import Callable

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_view

from commerce.shops.serializers import (
    AcceptInvitationSerializer,
    CurrentUserSerializer,
    ShopReferenceSerializer,
    ShopSerializer,
)

TAGS = ["Shops"]
OWNER_ONLY = (
    "Only the owner of the shop and super admins may call this. Staff of the shop get 403, and everybody else 404."
)

describe_current_user = extend_schema_view(
    get=extend_schema(
        operation_id="me",
        tags=["Accounts"],
        summary="Get the signed-in user",
        description="Returns your account with your role, addresses and the shops that you own or work in. Any "
        "signed-in user may call this.",
        responses=CurrentUserSerializer,
    )
)

describe_shops = extend_schema_view(
    list=extend_schema(
        operation_id="shops",
        tags=TAGS,
        summary="List shops",
        description="Returns a page of active shops, newest first. No credentials are needed. If you are signed in, "
        "the list also has the inactive shops that you own or work in; super admins see all shops.",
    ),
    create=extend_schema(
        operation_id="create_shop",
        tags=TAGS,
        summary="Create a shop",
        description="Creates a shop that you own and returns it. Store owners and super admins may call this. The "
        "shop is inactive, which means that only you and your staff see it, until a super admin activates it. "
        "Returns 409 if ten of your shops are inactive.",
    ),
    retrieve=extend_schema(
        operation_id="shop",
        tags=TAGS,
        summary="Get a shop",
        description="Returns one shop, found by its slug or id. No credentials are needed. Returns 404 for an inactive "
        "shop unless you own it, work there or are a super admin.",
    ),
    update=extend_schema(
        operation_id="change_shop",
        tags=TAGS,
        summary="Change a shop",
        description="Changes the fields that you send and returns the shop. The slug and the owner never change. "
        f"{OWNER_ONLY}",
    ),
)

describe_my_shops = extend_schema_view(
    list=extend_schema(
        operation_id="my_shops",
        tags=TAGS,
        summary="List your shops",
        description="Returns an array of the shops that you own or work in, active or not, newest first. Store "
        "owners, staff and super admins may call this; others get 403.",
    )
)
describe_new_shops = extend_schema_view(
    list=extend_schema(
        operation_id="new_shops",
        tags=TAGS,
        summary="List shops to activate",
        description="Returns a page of the inactive shops, the newest first; `is_active=1` returns the active ones "
        "instead. Only super admins may call this.",
    )
)
describe_approve_shop = extend_schema_view(
    post=extend_schema(
        operation_id="approve_shop",
        tags=TAGS,
        summary="Activate a shop",
        description="Makes a shop visible to everybody and returns it. It may be active already. Only super admins "
        "may call this. Returns 404 for an unknown shop.",
        request=ShopReferenceSerializer,
        responses=ShopSerializer,
    )
)
describe_disapprove_shop = extend_schema_view(
    post=extend_schema(
        operation_id="disapprove_shop",
        tags=TAGS,
        summary="Deactivate a shop",
        description="Makes a shop visible to its owner and staff only and returns it. It may be inactive already. "
        "Only super admins may call this. Returns 404 for an unknown shop.",
        request=ShopReferenceSerializer,
        responses=ShopSerializer,
    )
)

describe_staff = extend_schema_view(
    list=extend_schema(
        operation_id="staff",
        tags=TAGS,
        summary="List the staff of a shop",
        description=f"Returns a page of the shop's staff members, the newest first. {OWNER_ONLY}",
    ),
    create=extend_schema(
        operation_id="invite_staff",
        tags=TAGS,
        summary="Invite a staff member",
        description="Sends an e-mail with a link that accepts the invitation and returns the invitation. An earlier "
        "link to the same address stops working. The response does not tell whether the address has an account. "
        f"Returns 429 after five invitations a minute, or five e-mails an hour to one address. {OWNER_ONLY}",
    ),
    destroy=extend_schema(
        operation_id="remove_staff",
        tags=TAGS,
        summary="Remove a staff member",
        description="Ends a staff member's work in the shop and returns `true`. From their next request on they are a "
        f"customer, and they must sign in again. Returns 404 if the user does not work there. {OWNER_ONLY}",
    ),
)

describe_staffs = extend_schema_view(
    list=extend_schema(
        operation_id="staffs",
        tags=TAGS,
        summary="List the staff of your shops",
        description="Returns a page of the staff members of your shops or, with `shop_id`, of one of them, the newest "
        "first. Super admins get those of all shops. Only store owners and super admins may call this.",
    ),
    create=extend_schema(
        operation_id="invite_staff_to_shop",
        tags=TAGS,
        summary="Invite a staff member to a shop",
        description="Does what `POST /api/shops/{shop_id}/staff` does, for the shop `shop_id`: sends an e-mail with a "
        "link that accepts the invitation, and returns the invitation. The person chooses name and password. Returns "
        "404 for another owner's shop, and 429 after five invitations a minute, or five e-mails an hour to one "
        "address. Only store owners and super admins may call this.",
    ),
    destroy=extend_schema(
        operation_id="remove_staff_of_shops",
        tags=TAGS,
        summary="Remove a staff member of your shops",
        description="Ends a staff member's work in a shop of yours and returns `true`. From their next request on they "
        "are a customer, and they must sign in again. Returns 404 if the user does not work in one of your shops. Only "
        "store owners and super admins may call this.",
    ),
)

describe_my_staffs = extend_schema_view(
    list=extend_schema(
        operation_id="my_staffs",
        tags=TAGS,
        summary="List the staff of your shops (alias)",
        description="Returns what `GET /api/staffs` does. Only store owners and super admins may call this.",
    )
)
describe_all_staffs = extend_schema_view(
    list=extend_schema(
        operation_id="all_staffs",
        tags=TAGS,
        summary="List the staff of all shops",
        description="Returns a page of the staff members of all shops, the newest first. Only super admins may call "
        "this.",
    )
)


def _describe_users(operation_id: str, summary: str, which: str) -> Callable[[type], type]:
    description = f"Returns a page of {which}, the newest first. Only super admins may call this."
    return extend_schema_view(
        list=extend_schema(operation_id=operation_id, tags=["Accounts"], summary=summary, description=description)
    )


describe_users = _describe_users("users", "List users", "all users")
describe_admins = _describe_users("admins", "List super admins", "the super admins")
describe_vendors = _describe_users("vendors", "List store owners", "the store owners")
describe_customers = _describe_users("customers", "List customers", "the users who are customers only")

describe_invitations = extend_schema_view(
    list=extend_schema(
        operation_id="invitations",
        tags=TAGS,
        summary="List open staff invitations",
        description="Returns a page of the shop's invitations that can still be accepted, the newest first. "
        f"{OWNER_ONLY}",
    ),
    destroy=extend_schema(
        operation_id="withdraw_invitation",
        tags=TAGS,
        summary="Withdraw a staff invitation",
        description="Deletes an open invitation, so that its link stops working, and returns `true`. Returns 404 for "
        f"an invitation that was accepted or has expired. {OWNER_ONLY}",
    ),
)

describe_accept_invitation = extend_schema_view(
    post=extend_schema(
        operation_id="accept_invitation",
        tags=TAGS,
        summary="Accept a staff invitation",
        description="Makes you a staff member of the shop that invited you and returns `true`; sign in afterwards. No "
        "credentials are needed: the token comes from the link in the e-mail. If the address has no account, one is "
        "made with this name and password; otherwise the password replaces the old one. Returns 422 for a wrong, used "
        "or expired token or a weak password, and 409 if you own a shop or work in another one.",
        request=AcceptInvitationSerializer,
        responses=OpenApiTypes.BOOL,
    )
)
