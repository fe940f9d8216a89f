"""The open vocabulary: invented words of many styles, product names, and keywords with their grammatical form.

Whether a word or phrase may be seen in training is decided by its hash alone (`is_held_out`): one in ten is kept for
measuring and never appears in a training text.
"""

import hashlib
from dataclasses import dataclass
from random import Random

from inference.builtin.kinds import phrases

HELD_OUT_SHARE = 10


def is_held_out(phrase: str) -> bool:
    """Whether a phrase, in whatever case, is kept out of training."""
    return hashlib.sha256(phrase.lower().encode()).digest()[0] % HELD_OUT_SHARE == 0


def article(phrase: str) -> str:
    """The indefinite article that a phrase takes: "a" or "an"."""
    word = phrase.lower().lstrip("\"'")
    if word.startswith(("hour", "honest", "heir")):
        return "an"
    if word.startswith(("eu", "ew", "uni", "use", "usa", "usb", "uti", "one", "once", "ura", "uro")):
        return "a"
    if len(word) > 1 and phrase[:2].isupper() and phrase[:1] in "FLMNRSX":
        return "an"
    return "an" if word[:1] in "aeiou" or word[:1] == "8" or word.startswith(("11", "18")) else "a"


# --- invented words -------------------------------------------------------------------------------------------------

STYLES = {
    "latin": (phrases("v;l;m;s;t;c;n;r;p;d;f;b;qu;gl;pr;cl;br;tr;;"), phrases("a;e;i;o;u;ia;io;eo;ae"), phrases("n;r;s;l;x;nt;st;m;;;;;"), phrases("a;o;us;um;is;ix;ora;ella;ino;era;ium;ana;ette;ara")),
    "nordic": (phrases("h;k;s;f;b;g;t;v;sk;st;fj;br;gr;kr;n;l;hj;sn;tr"), phrases("a;o;e;i;u;y;ei;au;oe"), phrases("r;l;n;lm;rn;ld;nd;rd;sk;k;v;g;;"), phrases("en;heim;a;dal;vik;by;sund;lund;e;berg;fell;gard;strand;holm;s")),
    "japanese": (phrases("k;s;t;n;h;m;y;r;sh;ch;ts;w;g;z;d;b;;"), phrases("a;i;u;e;o;a;o;ai"), phrases(";;;;n"), phrases("ko;ka;shi;ri;no;mi;ta;ra;to;ne;ku;ma;zu")),
    "english": (phrases("b;br;c;cl;cr;d;dr;f;fl;g;gr;h;j;k;l;m;n;p;pl;r;s;sh;sl;sp;st;sw;t;th;tr;w;wh;v"), phrases("a;e;i;o;u;ea;oo;ai;ow;ee"), phrases("ck;d;ft;ll;m;n;nd;ng;p;r;rk;rt;sh;ss;st;t;w;x;zz;lt;mp;ve"), phrases("er;y;le;ley;ton;ford;ing;ed;wick;field;more;ow;et;wood;ling;mark;s")),
    "tech": (phrases("z;x;v;k;n;t;d;q;cr;tr;fl;s;m;l;pl;h;gl"), phrases("e;i;o;a;y;u;eo;io"), phrases("x;n;r;k;v;z;t;l;ph;;;"), phrases("on;ix;ify;io;ra;tek;ex;yx;ly;oid;tron;eo;ax;iva;ero;zen;scape")),
    "slavic": (phrases("v;b;z;d;k;l;m;n;p;r;s;t;dr;gr;kr;sv;zl;st;vl;br"), phrases("a;e;i;o;u;a;o"), phrases("v;k;n;r;l;sk;t;z;m;d;;"), phrases("ka;ov;ek;in;na;ava;ik;ko;eva;ina;nik;ar;ica")),
    "romance": (phrases("b;c;d;f;g;l;m;n;p;r;s;t;v;ch;j;br;fl;gr"), phrases("a;e;i;o;u;ou;ai;eau;ie"), phrases("n;r;l;s;t;rd;nt;c;;;"), phrases("ette;elle;eau;ier;ine;ille;aux;oire;anne;ine;ance;osa;ero;ita")),
}  # fmt: skip

MASS_ENDINGS = phrases("ite;ium;ex;on;ene;ane;fibre;wool;silk;weave;steel;wood;foam;tex;lon;cell;core;grain;flax")
ADJECTIVE_ENDINGS = phrases("ic;al;ous;ish;y;ive;ed;able;ent;less;ful;proof;free;-grade;-style;an;ary;ine")
COUNT_ENDINGS = phrases("er;or;et;ling;lock;grip;clip;dial;valve;hinge;strap;port;ring;band;plate")


def _syllables(random: Random, count: int, style: str) -> str:
    onsets, vowels, codas, _ = STYLES[style]
    return "".join(random.choice(onsets) + random.choice(vowels) + random.choice(codas) for _ in range(count))


def _letters(random: Random, endings: tuple[str, ...] | None = None) -> str:
    """A lower-case invented word of four to eleven letters."""
    style = random.choice(tuple(STYLES))
    while True:
        word = _syllables(random, random.choice((1, 1, 2)), style) + random.choice(endings or STYLES[style][3])
        if 4 <= len(word) <= 11:
            return word


def invented(random: Random, held_out: bool, endings: tuple[str, ...] | None = None) -> str:
    """A lower-case invented word, from the training share or from the held-out one."""
    while is_held_out(word := _letters(random, endings)) != held_out:
        pass
    return word


# --- names ----------------------------------------------------------------------------------------------------------

NAME_WORDS = phrases(
    "amber; anchor; apple; arrow; aspen; atlas; aurora; autumn; badger; bamboo; barley; basil; bay; beacon; bear; birch; blossom; blue; bold; branch; breeze; bright; brook; canyon; cedar; chestnut; cliff; cloud; clover; coast; comet; copper; coral; cosmic; cotton; crane; creek; crown; crystal; dawn; deep; deer; delta; desert; dove; dream; drift; dune; dusk; eagle; earth; echo; elm; ember; evening; falcon; feather; fern; field; finch; fire; first; fjord; flint; forest; fox; frost; garden; ginger; glacier; golden; granite; green; grove; gull; harbor; hare; harvest; hawk; hazel; heath; heron; hill; hollow; honey; horizon; indigo; iron; island; ivory; ivy; jade; jasper; juniper; kind; lake; lark; laurel; lavender; leaf; lemon; lilac; lily; linden; little; lotus; lucky; luna; lynx; magnolia; maple; marble; marigold; meadow; midnight; mint; mist; moon; morning; moss; mountain; nectar; night; noble; north; nova; oak; ocean; olive; onyx; opal; orbit; orchid; otter; owl; paper; peak; pearl; pebble; pepper; petal; pilot; pine; pioneer; plum; polar; pond; poppy; prairie; pure; quartz; quiet; quill; rain; raven; red; reed; ridge; river; robin; rocket; rose; rowan; ruby; rustic; saffron; sage; sail; salt; sand; scarlet; sea; shadow; shell; shore; silent; silver; sky; slate; slow; snow; solar; solstice; south; sparrow; spring; spruce; star; stone; storm; stream; summer; summit; sun; swallow; swan; swift; thistle; thunder; thyme; tide; tiger; timber; topaz; trail; true; tulip; twin; urban; valley; velvet; violet; walnut; wander; water; wave; west; whale; wild; willow; wind; winter; wolf; wonder; wren; zen; zephyr"
)  # fmt: skip

SUFFIXES = phrases("Pro; Plus; Mini; Max; Lite; One; Two; Go; Air; XL; II; III; Classic; Studio; Home; Original; Sport; Duo")


@dataclass(frozen=True)
class Name:
    """A product's name as written everywhere, and whether it ends in the noun of its kind."""

    text: str
    has_noun: bool


def _model_number(random: Random) -> str:
    letters = "".join(random.choice("ABCDEFGHJKLMNPQRSTVWXZ") for _ in range(random.choice((1, 2, 2, 3))))
    digits = str(random.randint(2, 9999)) if random.random() < 0.4 else str(random.randint(1, 99) * 10)
    return letters + random.choice(("-", " ", "", "-")) + digits


def _brand(random: Random, held_out: bool) -> str:
    """One or two words that no dictionary has as a product."""
    roll = random.random()
    word = invented(random, held_out).capitalize()
    if roll < 0.5:
        return word
    other = random.choice(NAME_WORDS).capitalize()
    if roll < 0.6:
        return f"{word} {other}"
    if roll < 0.7:
        return f"{other} {word}"
    if roll < 0.76:
        return f"{word} & {other}" if random.random() < 0.5 else f"{word} {random.choice(SUFFIXES)}"
    if roll < 0.82:
        return word.upper() if random.random() < 0.4 else word + other.lower()
    if roll < 0.88:
        return f"{word} {_model_number(random)}"
    if roll < 0.93:
        return f"{word} {invented(random, held_out).capitalize()}"
    return f"{word}'s {other}" if random.random() < 0.5 else f"{word}-{other}"


def _familiar(random: Random, held_out: bool) -> str:
    """A name of dictionary words or a model number; the combination is what may be held out."""
    while True:
        roll = random.random()
        first, second = (random.choice(NAME_WORDS).capitalize() for _ in range(2))
        if roll < 0.35:
            text = f"{first} {second}"
        elif roll < 0.5:
            text = f"{first} & {second}"
        elif roll < 0.65:
            text = first + second.lower()
        elif roll < 0.8:
            text = _model_number(random)
        else:
            text = f"{first} {random.choice((*SUFFIXES, _model_number(random)))}"
        if is_held_out(text) == held_out and first != second:
            return text


def product_name(random: Random, noun: str | None, held_out: bool) -> Name:
    """A name; with a noun it usually ends in it, and now and then a suffix follows."""
    text = _brand(random, held_out) if held_out or random.random() < 0.7 else _familiar(random, held_out)
    if noun is not None:
        cased = noun if random.random() < 0.5 else " ".join(word.capitalize() for word in noun.split(" "))
        text = f"{text} {cased}"
        if random.random() < 0.07:
            text = f"{text} {random.choice((*SUFFIXES, _model_number(random)))}"
    roll = random.random()
    if roll < 0.05:
        text = text.lower()
    elif roll < 0.06:
        text = text.upper()
    return Name(text, noun is not None)


# --- keywords -------------------------------------------------------------------------------------------------------

ADJECTIVES = phrases(
    "adjustable; affordable; airy; all-natural; antique; aromatic; artisanal; balanced; biodegradable; bold; breathable; bright; calming; certified; chic; classic; colourful; comfortable; compact; cordless; cosy; cozy; crisp; cruelty-free; curved; custom; dainty; decorative; delicate; dependable; detachable; discreet; dishwasher-safe; durable; eco-friendly; efficient; elegant; ergonomic; ethical; everyday; extendable; fair-trade; festive; firm; flexible; foldable; fragrant; fresh; functional; gentle; giftable; glossy; gluten-free; graceful; hand-painted; handcrafted; handmade; handwoven; handy; hard-wearing; healthy; heat-resistant; heavy-duty; heirloom; hypoallergenic; iconic; innovative; insulated; intuitive; inviting; kid-friendly; leak-proof; light; lightweight; limited; local; long-lasting; luxurious; machine-washable; matte; mellow; minimal; minimalist; modern; modular; natural; neutral; non-slip; non-toxic; nostalgic; odour-free; organic; original; oversized; padded; pastel; patterned; personal; playful; plush; pocket-sized; polished; portable; practical; precise; premium; quiet; quick-drying; rare; rechargeable; reclaimed; recyclable; recycled; refillable; refined; reliable; retro; reusable; reversible; robust; romantic; roomy; rugged; rustic; safe; scented; scratch-resistant; seasonal; secure; sensitive; shockproof; silent; simple; sleek; slim; smart; smooth; snug; soft; solar-powered; soothing; sophisticated; spacious; stackable; stain-resistant; stretchy; strong; sturdy; stylish; subtle; sugar-free; supportive; sustainable; tactile; thick; thin; timeless; tough; traditional; trendy; ultralight; understated; unisex; unscented; upcycled; vegan; versatile; vibrant; vintage; wall-mounted; warm; washable; water-resistant; waterproof; weatherproof; whimsical; wide; windproof; wireless; woven; wrinkle-free"
)  # fmt: skip
MATERIALS = phrases(
    "acacia; acrylic; alpaca; aluminium; aluminum; bamboo; beech; beeswax; birch; bone china; brass; bronze; canvas; carbon fibre; cashmere; cast iron; cedar; ceramic; cherry wood; clay; concrete; copper; cork; corduroy; cotton; crystal; denim; down; elm; enamel; felt; flannel; fleece; foam; glass; gold; granite; graphite; hemp; hickory; iron; jute; latex; leather; linen; mahogany; maple; marble; memory foam; merino; mesh; neoprene; nylon; oak; olive wood; organic cotton; paper; pewter; pine; plywood; polyester; porcelain; rattan; resin; rose gold; rosewood; rubber; satin; seagrass; sheepskin; silicone; silk; silver; slate; stainless steel; steel; stoneware; suede; teak; terracotta; titanium; tweed; velvet; walnut; wicker; wood; wool"
)  # fmt: skip
HEADS = phrases(
    "accent; arm; back; band; base; basket; battery; belt; blade; body; border; bottom; bowl; box; bracket; brush; buckle; button; cable; cap; case; chain; charger; clasp; clip; closure; collar; cord; core; corner; cover; cuff; cushion; dial; display; divider; dock; drawer; edge; filter; finish; flap; fold; frame; front; fringe; grip; guard; handle; hanger; head; hinge; holder; hood; hook; inlay; insert; interior; jar; joint; knob; label; lamp; latch; layer; leg; lens; lid; light; liner; lining; lock; loop; mechanism; motor; mount; neck; nozzle; pad; panel; pattern; plate; plug; pocket; port; pouch; pump; rack; rail; rim; ring; sensor; shade; shell; sleeve; slot; sole; spout; spring; stand; stem; strap; stripe; surface; switch; tab; tag; tank; texture; timer; tip; top; tray; trim; tube; valve; weave; wheel; window; wrap; zip; zipper"
)  # fmt: skip
HEAD_QUALITIES = phrases(
    "adjustable; anti-slip; bevelled; braided; carved; chrome; clear; coated; coloured; contoured; cool-touch; curved; detachable; dimmable; double; embossed; engraved; extra; fine; flat; flexible; folding; frosted; full-length; gloss; hand-sewn; hidden; high; hinged; inner; large; leak-proof; locking; long; low; magnetic; matte; mirrored; narrow; non-stick; open; oval; padded; patterned; pointed; polished; quick-release; raised; reinforced; removable; ribbed; rotating; round; rounded; sealed; second; self-closing; sharp; short; silent; slim; soft; soft-close; solid; spare; square; stitched; striped; tapered; textured; thick; tilting; tinted; touch; translucent; transparent; twin; two-tone; USB-C; vented; wide; wireless; woven"
)  # fmt: skip
MASS = phrases(
    "app control; aromatherapy; batteries included; Bluetooth; bold colours; calm; character; charm; clean lines; colour; comfort; convenience; craftsmanship; daily comfort; deep bass; deep colours; durability; elegance; energy; extra storage; fast charging; fast delivery; fine details; flavour; fragrance; free returns; free shipping; freshness; good grip; great value; hydration; LED lighting; low maintenance; low weight; memory; natural light; natural scent; neat stitching; noise cancellation; nostalgia; outdoor comfort; pastel tones; plenty of space; privacy; protection; quality; quick setup; recycled packaging; relaxation; rich flavour; rounded corners; safety; serenity; simplicity; soft curves; soft light; stability; storage; style; sun protection; support; texture; vitamin C; vitamin E; voice control; warm light; warmth; wireless charging; zero waste"
)  # fmt: skip
PREDICATES = phrases(
    "easy to assemble; easy to carry; easy to clean; easy to store; easy to use; fun to use; good for beginners; good for the planet; great as a gift; great for kids; great for travel; made by hand; made in Europe; made in Italy; made in Japan; made in Portugal; made locally; made to last; made to order; nice to touch; perfect for gifting; quick to dry; quick to set up; ready to ship; rich in colour; safe for children; safe for pets; simple to fix; soft to the touch; suitable for vegans; tested by experts; built to last; free of plastic; gentle on skin; hard to break; kind to skin; light to carry; low in sugar; full of flavour"
)  # fmt: skip
ACTIVITIES = phrases(
    "adventure; autumn; baking; barbecues; bathing; birthdays; boating; breakfast; brunch; camping; celebrations; children; Christmas; city life; climbing; coffee; commuting; cooking; cycling; dancing; daily use; date night; dinner parties; drawing; entertaining; everyday use; family; festivals; fishing; fitness; gaming; gardening; gifting; gifts; hiking; holidays; home; indoors; journaling; kayaking; kids; knitting; learning; meditation; mornings; movie night; music; outdoors; painting; parties; pets; photography; picnics; Pilates; reading; relaxing; road trips; running; sailing; school; self-care; skiing; sleep; small spaces; spring; storage; study; summer; sunbathing; surfing; swimming; tea; teaching; training; travel; vacation; walking; weddings; weekend; winter; work; workouts; writing; yoga"
)  # fmt: skip
ROOMS = phrases("balcony; bathroom; beach; bedroom; desk; dorm; garage; garden; hallway; home office; hotel; kitchen; living room; nursery; office; patio; pool; school; spa; terrace")
UNITS = phrases("ml; cm; mm; g; kg; hours; pieces; watts; litres; inches; metres; years; days; colours; sizes; modes; settings; pockets; speeds; oz")


@dataclass(frozen=True)
class Keyword:
    """A keyword as the shop writes it, and its form: adjective, predicate, count, mass, material, activity or room."""

    text: str
    form: str


def plural(noun: str) -> str:
    """The plural of a regular noun."""
    if noun.endswith(("s", "x", "sh", "ch")):
        return noun + "es"
    return noun[:-1] + "ies" if noun.endswith("y") and noun[-2] not in "aeiou" else noun + "s"


def _composed(random: Random) -> Keyword:
    """A part with a quality or a material: "leak-proof lid", "oak handle", "solid brass hinge"."""
    head = random.choice(HEADS)
    roll = random.random()
    if roll < 0.45:
        text = f"{random.choice(HEAD_QUALITIES)} {head}"
    elif roll < 0.85:
        text = f"{random.choice(MATERIALS)} {head}"
    else:
        text = f"{random.choice(HEAD_QUALITIES)} {random.choice(MATERIALS)} {head}"
    if random.random() < 0.2:
        return Keyword(plural(text), "mass")
    return Keyword(text, "count")


def _specification(random: Random) -> Keyword:
    number = random.choice((random.randint(2, 12), random.randint(2, 99), random.randint(1, 40) * 25))
    roll = random.random()
    if roll < 0.6:
        return Keyword(f"{number} {random.choice(UNITS)}", "mass")
    if roll < 0.8:
        return Keyword(f"{number}-year {random.choice(('warranty', 'guarantee'))}", "count")
    return Keyword(f"IP{random.randint(20, 69)}" if random.random() < 0.5 else f"{number}% {random.choice(MATERIALS)}", "mass")


def _invented_keyword(random: Random, held_out: bool) -> Keyword:
    roll = random.random()
    if roll < 0.3:
        return Keyword(invented(random, held_out, ADJECTIVE_ENDINGS), "adjective")
    if roll < 0.5:
        return Keyword(invented(random, held_out, MASS_ENDINGS), "mass")
    if roll < 0.6:
        return Keyword(invented(random, held_out, COUNT_ENDINGS), "count")
    if roll < 0.8:
        return Keyword(f"{invented(random, held_out)} {random.choice(HEADS)}", "count")
    word = invented(random, held_out)
    return Keyword(word.capitalize() if random.random() < 0.3 else word, "mass")


def keyword(random: Random, held_out: bool, invented_share: float = 0.25) -> Keyword:
    """A keyword of any form. A held-out one is an invented word or a composed phrase that training never shows."""
    if random.random() < invented_share:
        return _invented_keyword(random, held_out)
    roll = random.random()
    if held_out or roll < 0.34:
        while is_held_out((found := _composed(random)).text) != held_out:
            pass
        return found
    if roll < 0.62:
        return Keyword(random.choice(ADJECTIVES), "adjective")
    if roll < 0.74:
        return Keyword(random.choice(MATERIALS), "material")
    if roll < 0.83:
        return Keyword(random.choice(MASS), "mass")
    if roll < 0.9:
        return Keyword(random.choice(ACTIVITIES), "activity")
    if roll < 0.92:
        return Keyword(random.choice(ROOMS), "room")
    return Keyword(random.choice(PREDICATES), "predicate") if roll < 0.95 else _specification(random)
