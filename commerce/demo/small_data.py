"""Users, shops and products of the small demo store. Prices are in euro cents."""

from dataclasses import dataclass, field

from shared.accounts.roles import Role


@dataclass(frozen=True)
class DemoUser:
    email: str
    name: str
    role: Role
    works_at: str = ""  # the slug of a staff member's shop


@dataclass(frozen=True)
class DemoShop:
    slug: str
    name: str
    owner: str  # an e-mail
    description: str


@dataclass(frozen=True)
class DemoProduct:
    shop: str
    category: str
    name: str
    price: int
    quantity: int
    sale_price: int | None = None
    tags: tuple[str, ...] = ()  # slugs
    unit: str = ""  # of a simple product
    # Values by the name of their attribute. With any, the product is variable: a variation for each combination.
    values: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class DemoAttribute:
    shop: str
    name: str
    values: dict[str, str]  # by text, such as a color, its `meta`


# The password of all demo users, printed when they are created.
PASSWORD = "look-around-freely"  # noqa: S105

USERS = (
    DemoUser("admin@stoa.example", "Ada Marsh", Role.SUPER_ADMIN),
    DemoUser("owner@stoa.example", "Olu Bright", Role.STORE_OWNER),
    DemoUser("staff@stoa.example", "Sanna Field", Role.STAFF, works_at="hearth-and-table"),
    DemoUser("customer@stoa.example", "Cato Lindqvist", Role.CUSTOMER),
    DemoUser("owner2@stoa.example", "Petra Vale", Role.STORE_OWNER),
    DemoUser("staff2@stoa.example", "Tomas Reed", Role.STAFF, works_at="far-trails"),
    DemoUser("moderator@stoa.example", "Mira Holm", Role.MODERATOR),
)

SHOPS = (
    DemoShop(
        "hearth-and-table",
        "Hearth & Table",
        "owner@stoa.example",
        "Things for the kitchen, the table and the living room.",
    ),
    DemoShop("far-trails", "Far Trails", "owner2@stoa.example", "Gear for people who walk, ride and sleep outside."),
)

TYPES = {"home": "Home", "outdoors": "Outdoors"}

# slug: (type, name)
CATEGORIES = {
    "kitchen": ("home", "Kitchen"),
    "tableware": ("home", "Tableware"),
    "lighting": ("home", "Lighting"),
    "camping": ("outdoors", "Camping"),
    "cycling": ("outdoors", "Cycling"),
    "hiking": ("outdoors", "Hiking"),
}

# slug: (the category above, name)
SUBCATEGORIES = {
    "cookware": ("kitchen", "Cookware"),
    "knives-and-boards": ("kitchen", "Knives and Boards"),
    "table-linen": ("tableware", "Table Linen"),
    "sleeping-bags": ("camping", "Sleeping Bags"),
    "bike-bags": ("cycling", "Bike Bags"),
}

TAGS = {"bestseller": "Bestseller", "new-in": "New In", "gift-idea": "Gift Idea"}

ATTRIBUTES = (
    DemoAttribute("hearth-and-table", "Color", {"Sand": "#d8c3a5", "Charcoal": "#36454f", "Moss": "#6b7f4f"}),
    DemoAttribute(
        "hearth-and-table",
        "Material",
        dict.fromkeys(
            ("Linen", "Stoneware", "Oak", "Cast iron", "Maple", "Carbon steel", "Copper", "Walnut", "Brass"), ""
        ),
    ),
    DemoAttribute(
        "hearth-and-table", "Measure", dict.fromkeys(("16 cm", "20 cm", "24 cm", "28 cm", "350 ml", "1.2 l"), "")
    ),
    DemoAttribute(
        "hearth-and-table",
        "Feature",
        dict.fromkeys(
            ("Juice groove", "Ceramic grinder", "Dimmable", "Machine-washable", "Dishwasher-safe", "Lined with tin"), ""
        ),
    ),
    DemoAttribute("far-trails", "Color", {"Slate": "#5b6770", "Rust": "#b7410e"}),
    DemoAttribute("far-trails", "Size", dict.fromkeys("SML", "")),
    DemoAttribute(
        "far-trails",
        "Material",
        dict.fromkeys(
            ("Ripstop nylon", "Titanium", "Recycled down", "Aluminium", "Waxed canvas", "Recycled nylon", "Steel"), ""
        ),
    ),
    DemoAttribute("far-trails", "Measure", dict.fromkeys(("2.1 kg", "480 g", "90 cm", "1.5 l", "400 lumens"), "")),
    DemoAttribute("far-trails", "Feature", dict.fromkeys(("Foldable", "Rechargeable", "Waterproof"), "")),
)

HOME_COLORS = {"Color": ("Sand", "Charcoal", "Moss")}
TRAIL_COLORS = {"Color": ("Slate", "Rust")}
TRAIL_SIZES = {"Size": ("S", "M", "L")}

PRODUCTS = (
    DemoProduct(
        "hearth-and-table",
        "kitchen",
        "Brunvale Teapot",
        4900,
        34,
        values={"Color": ("Sand", "Charcoal"), "Material": ("Stoneware",), "Measure": ("1.2 l",)},
    ),
    DemoProduct(
        "hearth-and-table",
        "cookware",
        "Castor Iron Skillet",
        5900,
        21,
        sale_price=4900,
        tags=("bestseller",),
        values={"Material": ("Cast iron",), "Measure": ("24 cm", "28 cm")},
    ),
    DemoProduct(
        "hearth-and-table",
        "knives-and-boards",
        "Maple Bread Board",
        3200,
        48,
        tags=("gift-idea",),
        values={"Material": ("Maple",), "Feature": ("Juice groove",)},
    ),
    DemoProduct(
        "hearth-and-table",
        "kitchen",
        "Nordlys Pepper Mill",
        2800,
        60,
        values={"Material": ("Oak", "Walnut"), "Feature": ("Ceramic grinder",)},
    ),
    DemoProduct(
        "hearth-and-table",
        "knives-and-boards",
        "Quillon Chef's Knife",
        8900,
        15,
        tags=("bestseller",),
        values={"Material": ("Carbon steel",), "Measure": ("16 cm", "20 cm")},
    ),
    DemoProduct(
        "hearth-and-table",
        "tableware",
        "Ostara Dinner Plate",
        1600,
        120,
        values=HOME_COLORS | {"Material": ("Stoneware",), "Feature": ("Dishwasher-safe",)},
    ),
    DemoProduct("hearth-and-table", "tableware", "Lumi Water Carafe", 2400, 40, unit="1.2 l"),
    DemoProduct(
        "hearth-and-table",
        "table-linen",
        "Fenwick Linen Napkins",
        2200,
        75,
        sale_price=1800,
        tags=("gift-idea", "new-in"),
        unit="set of 4",
        values=HOME_COLORS | {"Material": ("Linen",), "Feature": ("Machine-washable",)},
    ),
    DemoProduct(
        "hearth-and-table",
        "lighting",
        "Oakhurst Table Lamp",
        7900,
        18,
        values={"Color": ("Sand", "Charcoal"), "Material": ("Linen",), "Feature": ("Dimmable",)},
    ),
    DemoProduct("hearth-and-table", "lighting", "Solveig Candle Holder", 1900, 6, unit="set of 3"),
    DemoProduct(
        "far-trails",
        "camping",
        "Ridgeline Two-Person Tent",
        18900,
        12,
        values=TRAIL_COLORS | {"Material": ("Ripstop nylon",), "Measure": ("2.1 kg",)},
    ),
    DemoProduct(
        "far-trails",
        "camping",
        "Ember Camp Stove",
        6400,
        27,
        values={"Material": ("Titanium",), "Feature": ("Foldable",)},
    ),
    DemoProduct(
        "far-trails",
        "sleeping-bags",
        "Nightjar Sleeping Bag",
        12900,
        9,
        sale_price=10900,
        tags=("new-in",),
        values=TRAIL_SIZES | {"Material": ("Recycled down",)},
    ),
    DemoProduct(
        "far-trails", "camping", "Tarn Folding Chair", 4500, 33, values=TRAIL_COLORS | {"Material": ("Aluminium",)}
    ),
    DemoProduct(
        "far-trails",
        "cycling",
        "Velmo Bike Light",
        3400,
        80,
        values={"Material": ("Aluminium",), "Feature": ("Rechargeable",)},
    ),
    DemoProduct(
        "far-trails",
        "bike-bags",
        "Harrow Pannier Bag",
        7200,
        24,
        tags=("bestseller",),
        values=TRAIL_SIZES | TRAIL_COLORS | {"Material": ("Waxed canvas",)},
    ),
    DemoProduct("far-trails", "cycling", "Pico Hand Pump", 2600, 51, unit="120 g"),
    DemoProduct("far-trails", "hiking", "Skarn Trekking Poles", 6900, 0, unit="set of 2"),
    DemoProduct(
        "far-trails",
        "hiking",
        "Alder 28 Backpack",
        11900,
        16,
        values=TRAIL_COLORS | {"Material": ("Recycled nylon",), "Feature": ("Waterproof",)},
    ),
    DemoProduct("far-trails", "hiking", "Merrow Steel Bottle", 2900, 95, unit="750 ml"),
)

# What the demo has beside them.
MORE_PRODUCTS = (
    DemoProduct(
        "hearth-and-table",
        "cookware",
        "Marlow Copper Saucepan",
        9900,
        14,
        sale_price=8400,
        values={"Material": ("Copper",), "Measure": ("16 cm", "20 cm"), "Feature": ("Lined with tin",)},
    ),
    DemoProduct(
        "hearth-and-table",
        "kitchen",
        "Elvin Coffee Grinder",
        6900,
        22,
        tags=("gift-idea",),
        values={"Material": ("Oak", "Walnut"), "Feature": ("Ceramic grinder",)},
    ),
    DemoProduct(
        "hearth-and-table",
        "tableware",
        "Tilda Stoneware Mug",
        1400,
        90,
        values=HOME_COLORS | {"Material": ("Stoneware",), "Measure": ("350 ml",), "Feature": ("Dishwasher-safe",)},
    ),
    DemoProduct(
        "hearth-and-table",
        "table-linen",
        "Rosedal Table Runner",
        3400,
        26,
        tags=("new-in",),
        values={"Color": ("Sand", "Moss"), "Material": ("Linen",), "Feature": ("Machine-washable",)},
    ),
    DemoProduct(
        "hearth-and-table",
        "lighting",
        "Kolm Reading Light",
        5400,
        0,
        values={"Material": ("Brass",), "Feature": ("Dimmable",)},
    ),
    DemoProduct(
        "far-trails",
        "sleeping-bags",
        "Cirrus Sleeping Mat",
        7900,
        31,
        tags=("bestseller",),
        values=TRAIL_COLORS | {"Material": ("Recycled nylon",), "Measure": ("480 g",)},
    ),
    DemoProduct(
        "far-trails",
        "camping",
        "Pinecone Lantern",
        3900,
        44,
        tags=("gift-idea",),
        values={"Material": ("Aluminium",), "Measure": ("400 lumens",), "Feature": ("Rechargeable",)},
    ),
    DemoProduct(
        "far-trails",
        "bike-bags",
        "Lofoten Saddle Bag",
        3800,
        37,
        values=TRAIL_COLORS | {"Material": ("Waxed canvas",), "Measure": ("1.5 l",)},
    ),
    DemoProduct(
        "far-trails",
        "cycling",
        "Trueline Bike Lock",
        5900,
        19,
        sale_price=4900,
        values={"Material": ("Steel",), "Measure": ("90 cm",)},
    ),
    DemoProduct(
        "far-trails",
        "hiking",
        "Brae Rain Jacket",
        14900,
        17,
        tags=("new-in",),
        values=TRAIL_SIZES | TRAIL_COLORS | {"Material": ("Recycled nylon",), "Feature": ("Waterproof",)},
    ),
)
# Shapes of the pictures, by a product's slug.
SHAPES = {
    "brunvale-teapot": "pot",
    "castor-iron-skillet": "pot",
    "maple-bread-board": "book",
    "nordlys-pepper-mill": "bottle",
    "quillon-chefs-knife": "pen",
    "ostara-dinner-plate": "wheel",
    "lumi-water-carafe": "jar",
    "fenwick-linen-napkins": "cloth",
    "oakhurst-table-lamp": "lamp",
    "solveig-candle-holder": "jar",
    "ridgeline-two-person-tent": "tent",
    "ember-camp-stove": "pot",
    "nightjar-sleeping-bag": "cloth",
    "tarn-folding-chair": "shirt",
    "velmo-bike-light": "speaker",
    "harrow-pannier-bag": "bag",
    "pico-hand-pump": "bottle",
    "skarn-trekking-poles": "pen",
    "alder-28-backpack": "bag",
    "merrow-steel-bottle": "bottle",
    "marlow-copper-saucepan": "pot",
    "elvin-coffee-grinder": "jar",
    "tilda-stoneware-mug": "cup",
    "rosedal-table-runner": "cloth",
    "kolm-reading-light": "lamp",
    "cirrus-sleeping-mat": "cloth",
    "pinecone-lantern": "lamp",
    "lofoten-saddle-bag": "bag",
    "trueline-bike-lock": "wheel",
    "brae-rain-jacket": "shirt",
}
