"""Images with a few bytes changed, removed or inserted, for row U11."""

import random

from tests.commerce.attachments.samples import TYPES, animation, image_file


def samples() -> list[tuple[str, bytes]]:
    """Return (type, content) pairs of valid images of every type."""
    still = [(content_type, image_file(name, 40, 30)) for name, content_type in TYPES.items()]
    moving = [(TYPES[name], animation(name, 4)) for name in ("GIF", "WEBP", "PNG")]
    progressive = image_file("JPEG", 40, 30, progressive=True, comment=b"a comment")
    return [*still, *moving, ("image/jpeg", progressive), ("image/webp", image_file("WEBP", lossless=True))]


def mutated(content: bytes, dice: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(dice.randrange(1, 8)):
        at = dice.randrange(len(changed))
        match dice.randrange(4):
            case 0:
                changed[at] = dice.randrange(256)
            case 1:
                del changed[at : at + dice.randrange(1, 16)]
            case 2:
                changed[at:at] = dice.randbytes(dice.randrange(1, 16))
            case _:
                changed[at : at + 4] = dice.choice([b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"])
        if not changed:
            return b"\0"
    return bytes(changed)
