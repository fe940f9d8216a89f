"""Images of the demo's products: one plain shape for each category, in colors of the product."""

import colorsys
import io
from collections.abc import Callable

from PIL import Image, ImageDraw

WIDTH, HEIGHT = 800, 600
SUPERSAMPLING = 2  # drawn larger and scaled down, for smooth edges

Color = tuple[int, int, int]
Draw = ImageDraw.ImageDraw


def draw_image(shape: str, hue: float) -> bytes:
    """Return a JPEG of the shape. `hue` is a position on the color wheel from 0 to 1."""
    background = _color(hue, 0.94, 0.30)
    image = Image.new("RGB", (WIDTH * SUPERSAMPLING, HEIGHT * SUPERSAMPLING), background)
    draw = ImageDraw.Draw(image)
    _draw_background(draw, hue)
    SHAPES[shape](Canvas(draw, hue))
    file = io.BytesIO()
    image.resize((WIDTH, HEIGHT), Image.Resampling.BOX).save(file, "JPEG", quality=82)
    return file.getvalue()


class Canvas:
    """Draws shapes in a square of 100 by 100 in the middle of the image, in three tones of one color and an accent."""

    def __init__(self, draw: Draw, hue: float) -> None:
        self._draw = draw
        self._tones = {
            "main": _color(hue, 0.55, 0.55),
            "dark": _color(hue, 0.32, 0.55),
            "light": _color(hue, 0.80, 0.60),
            "accent": _color(hue + 0.45, 0.60, 0.65),
        }

    def ellipse(self, tone: str, left: float, top: float, right: float, bottom: float) -> None:
        self._draw.ellipse(self._points((left, top), (right, bottom)), fill=self._tones[tone])

    def box(self, tone: str, left: float, top: float, right: float, bottom: float, corner: float = 2) -> None:
        self._draw.rounded_rectangle(
            self._points((left, top), (right, bottom)), radius=corner * self._unit, fill=self._tones[tone]
        )

    def polygon(self, tone: str, *points: tuple[float, float]) -> None:
        self._draw.polygon(self._points(*points), fill=self._tones[tone])

    def ring(self, tone: str, left: float, top: float, right: float, bottom: float, width: float = 3) -> None:
        self._draw.ellipse(
            self._points((left, top), (right, bottom)), outline=self._tones[tone], width=round(width * self._unit)
        )

    def line(self, tone: str, *points: tuple[float, float], width: float = 2) -> None:
        self._draw.line(self._points(*points), fill=self._tones[tone], width=round(width * self._unit), joint="curve")

    _unit = HEIGHT * SUPERSAMPLING / 125

    def _points(self, *points: tuple[float, float]) -> list[tuple[float, float]]:
        left, top = (WIDTH * SUPERSAMPLING - 100 * self._unit) / 2, (HEIGHT * SUPERSAMPLING - 100 * self._unit) / 2
        return [(left + x * self._unit, top + y * self._unit) for x, y in points]


def _color(hue: float, lightness: float, saturation: float) -> Color:
    red, green, blue = colorsys.hls_to_rgb(hue % 1, lightness, saturation)
    return round(red * 255), round(green * 255), round(blue * 255)


def _draw_background(draw: Draw, hue: float) -> None:
    horizon = HEIGHT * SUPERSAMPLING * 0.78
    draw.rectangle([0, horizon, WIDTH * SUPERSAMPLING, HEIGHT * SUPERSAMPLING], fill=_color(hue, 0.86, 0.28))
    middle, wide = WIDTH * SUPERSAMPLING / 2, HEIGHT * SUPERSAMPLING * 0.42
    draw.ellipse([middle - wide, horizon - 20, middle + wide, horizon + 70], fill=_color(hue, 0.79, 0.25))


def _pot(canvas: Canvas) -> None:
    canvas.line("dark", (6, 48), (94, 48), width=5)
    canvas.box("main", 18, 40, 82, 88, 10)
    canvas.box("light", 18, 40, 82, 50, 4)
    canvas.box("dark", 14, 32, 86, 40, 4)
    canvas.ellipse("accent", 44, 20, 56, 32)


def _cup(canvas: Canvas) -> None:
    canvas.ring("dark", 62, 44, 94, 74, 5)
    canvas.box("main", 18, 34, 76, 88, 14)
    canvas.ellipse("light", 18, 26, 76, 44)
    canvas.ellipse("dark", 23, 29, 71, 41)


def _lamp(canvas: Canvas) -> None:
    canvas.line("dark", (50, 45), (50, 86), width=4)
    canvas.ellipse("dark", 30, 82, 70, 92)
    canvas.polygon("main", (34, 12), (66, 12), (86, 52), (14, 52))
    canvas.polygon("light", (34, 12), (44, 12), (34, 52), (14, 52))
    canvas.ellipse("accent", 43, 50, 57, 60)


def _cloth(canvas: Canvas) -> None:
    for number, tone in enumerate(("dark", "main", "light", "accent")):
        canvas.box(tone, 14, 74 - number * 16, 86, 90 - number * 16, 6)
        canvas.line("dark", (20, 82 - number * 16), (80, 82 - number * 16), width=0.6)


def _tent(canvas: Canvas) -> None:
    canvas.polygon("dark", (50, 18), (98, 88), (62, 88))
    canvas.polygon("main", (50, 18), (82, 88), (2, 88))
    canvas.polygon("light", (50, 18), (52, 88), (30, 88))
    canvas.line("accent", (50, 8), (50, 20), width=2)


def _wheel(canvas: Canvas) -> None:
    canvas.ring("dark", 10, 10, 90, 90, 6)
    canvas.ring("main", 16, 16, 84, 84, 3)
    for x, y in ((50, 17), (83, 50), (50, 83), (17, 50), (26, 26), (74, 26), (74, 74), (26, 74)):
        canvas.line("light", (50, 50), (x, y), width=1)
    canvas.ellipse("accent", 42, 42, 58, 58)


def _bag(canvas: Canvas) -> None:
    canvas.ring("dark", 34, 6, 66, 46, 4)
    canvas.box("main", 16, 28, 84, 90, 12)
    canvas.box("light", 28, 56, 72, 80, 6)
    canvas.box("dark", 16, 40, 84, 46, 1)
    canvas.box("accent", 45, 38, 55, 50, 2)


def _plant(canvas: Canvas) -> None:
    for x, y in ((18, 22), (34, 8), (50, 2), (66, 8), (82, 22)):
        canvas.line("dark", (50, 64), (x, y + 8), width=1.6)
        canvas.ellipse("main" if x % 4 else "light", x - 10, y - 4, x + 10, y + 24)
    canvas.polygon("accent", (28, 60), (72, 60), (64, 92), (36, 92))
    canvas.box("dark", 25, 56, 75, 64, 2)


def _shirt(canvas: Canvas) -> None:
    canvas.polygon(
        "main", (34, 14), (66, 14), (96, 36), (84, 52), (72, 44), (72, 92), (28, 92), (28, 44), (16, 52), (4, 36)
    )
    canvas.polygon("light", (40, 14), (60, 14), (50, 30))
    for y in (42, 56, 70, 84):
        canvas.ellipse("dark", 48.5, y - 1.5, 51.5, y + 1.5)


def _shoe(canvas: Canvas) -> None:
    canvas.polygon("main", (12, 34), (40, 34), (52, 54), (86, 64), (94, 78), (12, 78))
    canvas.polygon("light", (12, 34), (40, 34), (46, 44), (12, 44))
    canvas.box("dark", 10, 76, 96, 88, 4)
    for number in range(3):
        canvas.line("accent", (42 + number * 8, 50 + number * 4), (52 + number * 8, 44 + number * 5), width=2)


def _book(canvas: Canvas) -> None:
    canvas.box("dark", 20, 8, 84, 94, 3)
    canvas.box("light", 24, 84, 82, 92, 1)
    canvas.box("main", 16, 6, 80, 86, 3)
    canvas.box("accent", 30, 22, 68, 40, 1)
    canvas.line("light", (30, 52), (68, 52), width=2)
    canvas.line("light", (30, 60), (58, 60), width=2)


def _pen(canvas: Canvas) -> None:
    canvas.polygon("main", (66, 8), (84, 22), (40, 78), (22, 64))
    canvas.polygon("light", (22, 64), (40, 78), (12, 92))
    canvas.polygon("accent", (72, 2), (90, 16), (84, 22), (66, 8))
    canvas.line("dark", (40, 94), (92, 94), width=2)


def _ball(canvas: Canvas) -> None:
    canvas.ellipse("main", 12, 14, 88, 90)
    canvas.ellipse("light", 26, 22, 52, 46)
    canvas.line("accent", (13, 56), (34, 66), (66, 66), (87, 56), width=6)


def _dice(canvas: Canvas) -> None:
    canvas.polygon("light", (50, 10), (90, 30), (50, 50), (10, 30))
    canvas.polygon("main", (10, 30), (50, 50), (50, 94), (10, 74))
    canvas.polygon("dark", (90, 30), (50, 50), (50, 94), (90, 74))
    for x, y in ((50, 30), (24, 52), (36, 76), (30, 64), (64, 62), (78, 70)):
        canvas.ellipse("accent", x - 4, y - 3, x + 4, y + 3)


def _bottle(canvas: Canvas) -> None:
    canvas.box("dark", 42, 6, 58, 22, 2)
    canvas.box("main", 30, 24, 70, 92, 10)
    canvas.box("light", 36, 46, 64, 76, 2)
    canvas.line("accent", (40, 56), (60, 56), width=2)
    canvas.line("accent", (40, 64), (54, 64), width=2)


def _jar(canvas: Canvas) -> None:
    canvas.box("light", 22, 24, 78, 92, 10)
    canvas.box("main", 22, 44, 78, 92, 10)
    canvas.box("dark", 26, 12, 74, 26, 3)
    canvas.box("accent", 34, 54, 66, 76, 3)


def _speaker(canvas: Canvas) -> None:
    canvas.box("dark", 26, 6, 74, 94, 6)
    canvas.ellipse("main", 32, 46, 68, 82)
    canvas.ellipse("light", 42, 56, 58, 72)
    canvas.ellipse("main", 40, 16, 60, 36)
    canvas.ellipse("accent", 46, 22, 54, 30)


SHAPES: dict[str, Callable[[Canvas], None]] = {
    "pot": _pot, "cup": _cup, "lamp": _lamp, "cloth": _cloth, "tent": _tent, "wheel": _wheel, "bag": _bag,
    "plant": _plant, "shirt": _shirt, "shoe": _shoe, "book": _book, "pen": _pen, "ball": _ball, "dice": _dice,
    "bottle": _bottle, "jar": _jar, "speaker": _speaker,
}  # fmt: skip
