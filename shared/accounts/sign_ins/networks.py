"""Networks from which users have signed in: their attempts are counted apart from those of strangers."""

from datetime import datetime, timedelta

from django.db.models import Exists, OuterRef
from django.utils.crypto import salted_hmac

from shared.accounts.models import SignInNetwork, User
from shared.api.limits.rate_limits import address_key

MAX_NETWORKS_PER_USER = 20
NETWORK_LIFETIME = timedelta(days=90)
RESOLUTION = timedelta(days=1)  # of `used_at`: a sign-in in between writes nothing


def network_of(address: str) -> str:
    """Return the keyed hash of an IPv4 address or of an IPv6 address's /64 network."""
    return salted_hmac("stoa.accounts.networks", address_key(address), algorithm="sha256").hexdigest()


def find_user(*, email: str, network: str, now: datetime) -> tuple[User | None, bool]:
    """Return the user of this e-mail address, and whether they have signed in from the network before."""
    used = SignInNetwork.objects.filter(user=OuterRef("pk"), network=network, used_at__gt=now - NETWORK_LIFETIME)
    user = User.objects.filter(email=email).annotate(is_known_network=Exists(used)).first()
    return user, bool(user and user.is_known_network)


def remember_network(*, user: User, network: str, now: datetime) -> None:
    """Store that the user has signed in from the network, and forget all but the latest networks."""
    row, is_new = SignInNetwork.objects.get_or_create(user=user, network=network, defaults={"used_at": now})
    if is_new:
        latest = SignInNetwork.objects.filter(user=user).order_by("-used_at", "-pk")
        kept = list(latest.values_list("pk", flat=True)[:MAX_NETWORKS_PER_USER])
        SignInNetwork.objects.filter(user=user).exclude(pk__in=kept).delete()
    elif row.used_at < now - RESOLUTION:
        SignInNetwork.objects.filter(pk=row.pk).update(used_at=now)
