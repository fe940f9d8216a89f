"""The second factor of sign-ins: one-time passwords of an authenticator app (RFC 6238), and recovery codes."""

import hmac
import secrets
from datetime import datetime

import pyotp
from django.conf import settings
from django.db import transaction
from django.db.models import F

from shared.accounts.authentication import hash_secret
from shared.accounts.models import SecondFactor, User
from shared.api.errors import ApiError, ValidationFailed
from shared.api.limits.rate_limits import hit, raise_if_limited
from shared.audit.services import record_audit_entry
from shared.encryption import DecryptionFailed, decrypt, encrypt

STEP_SECONDS = 30
RECOVERY_CODES = 10
CODES_A_DAY = 100  # right or wrong, with the right password
BEGIN_AGAIN = "Begin again: no second factor is waiting for its first code."
WRONG_CODE = "The code is wrong, expired or used. Send the current one of your authenticator app, or a recovery code."


class SecondFactorRequired(ApiError):
    """401 after a right password: the code is missing or wrong."""

    def __init__(self, message: str) -> None:
        super().__init__(401, message, code="second_factor_required", headers={"WWW-Authenticate": "Bearer"})


def begin_second_factor(*, user: User) -> SecondFactor:
    """Return a new factor that is not on before its first code. Raise ApiError 409 if one is on."""
    factor = SecondFactor(user=user, secret=encrypt(pyotp.random_base32()))
    SecondFactor.objects.filter(user=user, confirmed_at=None).update(secret=factor.secret, last_step=0)
    stored, _ = SecondFactor.objects.get_or_create(user=user, defaults={"secret": factor.secret})
    if stored.confirmed_at:
        raise ApiError(409, "The second factor is on already.")
    return stored


def waiting_second_factor(user: User) -> SecondFactor | None:
    """Return the factor that waits for its first code."""
    return SecondFactor.objects.select_related("user").filter(user=user, confirmed_at=None).first()


def authenticator_key(factor: SecondFactor) -> str:
    """Return the key to type where no QR code can be read."""
    return decrypt(factor.secret)


def authenticator_uri(factor: SecondFactor) -> str:
    """Return the otpauth:// URI that authenticator apps read as a QR code."""
    issuer = f"Stoa {settings.PROJECT}"
    return pyotp.TOTP(decrypt(factor.secret)).provisioning_uri(name=factor.user.email, issuer_name=issuer)


def turn_on_second_factor(*, user: User, code: str, now: datetime) -> list[str]:
    """Turn on the factor that was begun, end the user's sign-ins, and return the recovery codes, which are not stored.

    Raise ValidationFailed for a wrong code and ApiError 409 if none was begun.
    """
    factor = _limited_factor(user)
    if factor is None or factor.confirmed_at:
        raise ApiError(409, BEGIN_AGAIN)
    if not _uses_code(factor, code, now):
        raise ValidationFailed({"otp": [WRONG_CODE]})
    waiting = SecondFactor.objects.filter(pk=factor.pk, secret=factor.secret, confirmed_at=None)
    with transaction.atomic():
        if not waiting.update(confirmed_at=now):  # of another key, or gone: changed in another tab meanwhile
            raise ApiError(409, BEGIN_AGAIN)
        codes = _renew_recovery_codes(factor)
        _record("second_factor.turn_on", user, user, now)
        User.objects.filter(pk=user.pk).update(token_version=F("token_version") + 1)
    user.refresh_from_db(fields=["token_version"])
    return codes


def renew_recovery_codes(*, user: User, code: str, now: datetime) -> list[str]:
    """Return new recovery codes, which replace all earlier ones. Raise as `turn_off_own_second_factor` does."""
    factor = _confirmed_by(user, code, now)
    with transaction.atomic():
        _record("second_factor.new_recovery_codes", user, user, now)
        return _renew_recovery_codes(factor)


def turn_off_own_second_factor(*, user: User, code: str, now: datetime) -> None:
    """Remove the user's factor. Raise ValidationFailed for a wrong code and ApiError 409 if it is off."""
    _confirmed_by(user, code, now)
    remove_second_factor(user=user, actor=user, now=now)


def remove_second_factor(*, user: User, actor: User | None, now: datetime) -> bool:
    """Remove a factor without its code, as an administrator does for a lost one. Return whether there was one."""
    with transaction.atomic():
        removed, _ = SecondFactor.objects.filter(user=user).delete()
        if removed:
            _record("second_factor.turn_off", user, actor, now)
    return removed > 0


def has_second_factor(user: User) -> bool:
    return SecondFactor.objects.filter(user=user).exclude(confirmed_at=None).exists()


def check_second_factor(*, user: User, code: str, now: datetime) -> str:
    """Return what was used beside the password: `none`, `authenticator` or `recovery_code`. Codes work once.

    Raise SecondFactorRequired if the user has a factor and this is not a valid code of it.
    """
    factor = SecondFactor.objects.filter(user=user).exclude(confirmed_at=None).first()
    if factor is None:
        return "none"
    if not code:
        raise SecondFactorRequired(
            "This account has a second factor: send the code of your authenticator app as `otp`."
        )
    raise_if_limited(hit("codes-a-day", str(user.pk), limit=CODES_A_DAY, window_s=86_400, strict=True))
    if _uses_code(factor, code, now):
        return "authenticator"
    if not _uses_recovery_code(factor, code):
        raise SecondFactorRequired(WRONG_CODE)
    return "recovery_code"


def _limited_factor(user: User) -> SecondFactor | None:
    raise_if_limited(hit("second-factor", str(user.pk), limit=settings.LOGIN_LIMIT, strict=True))
    return SecondFactor.objects.filter(user=user).first()


def _confirmed_by(user: User, code: str, now: datetime) -> SecondFactor:
    factor = _limited_factor(user)
    if factor is None or not factor.confirmed_at:
        raise ApiError(409, "The second factor is off.")
    if not _uses_code(factor, code, now) and not _uses_recovery_code(factor, code):
        raise ValidationFailed({"otp": [WRONG_CODE]})
    return factor


def _uses_code(factor: SecondFactor, code: str, now: datetime) -> bool:
    """Return whether this is a code of the current, the last or the next half minute, and unused; use it up."""
    try:
        totp = pyotp.TOTP(decrypt(factor.secret), interval=STEP_SECONDS)
    except DecryptionFailed:  # the key was changed: recovery codes still work
        return False
    current = int(now.timestamp()) // STEP_SECONDS
    digits = code.replace(" ", "").encode(errors="replace")
    matching = [
        step
        for step in (current, current - 1, current + 1)
        if hmac.compare_digest(totp.generate_otp(step).encode(), digits)
    ]
    unused = (
        SecondFactor.objects.filter(pk=factor.pk, secret=factor.secret, last_step__lt=matching[0]) if matching else None
    )
    return unused is not None and unused.update(last_step=matching[0]) > 0


def _uses_recovery_code(factor: SecondFactor, code: str) -> bool:
    if not code.isascii():
        return False
    hashed = hash_secret(code.strip().lower())
    with transaction.atomic():
        locked = SecondFactor.objects.select_for_update().filter(pk=factor.pk).first()
        if locked is None or hashed not in locked.recovery_codes:
            return False
        locked.recovery_codes.remove(hashed)
        locked.save(update_fields=["recovery_codes"])
    return True


def _renew_recovery_codes(factor: SecondFactor) -> list[str]:
    codes = [f"{secrets.token_hex(8)}-{secrets.token_hex(8)}" for _ in range(RECOVERY_CODES)]
    SecondFactor.objects.filter(pk=factor.pk).update(recovery_codes=[hash_secret(code) for code in codes])
    return codes


def _record(action: str, user: User, actor: User | None, now: datetime) -> None:
    record_audit_entry(action=action, actor=actor, target_type="user", target_id=user.pk, details={}, now=now)
