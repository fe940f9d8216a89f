"""Users, shops, categories and names of the full demo store, and the products generated from them.

There are nine shops, six types and twenty-four categories. Prices are in euro cents.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from commerce.demo.small_data import DemoShop, DemoUser
from shared.accounts.roles import Role

USERS = (
    DemoUser("owner3@stoa.example", "Ines Calder", Role.STORE_OWNER),
    DemoUser("owner4@stoa.example", "Jonas Wick", Role.STORE_OWNER),
    DemoUser("owner5@stoa.example", "Maren Holt", Role.STORE_OWNER),
    DemoUser("staff3@stoa.example", "Emil Brandt", Role.STAFF, works_at="paper-lantern"),
    DemoUser("staff4@stoa.example", "Runa Dale", Role.STAFF, works_at="loom-and-last"),
)

SHOPS = (
    DemoShop("paper-lantern", "Paper Lantern", "owner3@stoa.example", "Books, paper and everything to write with."),
    DemoShop("small-wonders", "Small Wonders", "owner3@stoa.example", "Toys that last, and games for long evenings."),
    DemoShop("loom-and-last", "Loom & Last", "owner4@stoa.example", "Clothes and shoes made to be mended."),
    DemoShop("green-corner", "Green Corner", "owner4@stoa.example", "Plants, pots and tools for any window sill."),
    DemoShop("still-water", "Still Water", "owner5@stoa.example", "Soap, oil and other quiet luxuries."),
    DemoShop("bright-current", "Bright Current", "owner5@stoa.example", "Sound, light and power, well made."),
    DemoShop("morning-larder", "Morning Larder", "owner@stoa.example", "Coffee, tea and a good breakfast."),
)


@dataclass(frozen=True)
class DemoCategory:
    """A category of the demo. `kinds` lists its products with their approximate prices in euros."""

    slug: str
    type: str
    name: str
    shop: str
    shape: str  # shape of its images
    kinds: str
    sizes: str = ""  # for variable products
    size_attribute: str = "Size"
    season: str = ""  # peak season: summer, winter


TYPES = {
    "home": "Home",
    "outdoors": "Outdoors",
    "clothing": "Clothing",
    "paper-and-play": "Paper and Play",
    "body-and-table": "Body and Table",
    "electronics": "Electronics",
}

CATEGORIES = (
    DemoCategory(
        "kitchen", "home", "Kitchen", "hearth-and-table", "pot",
        "Saucepan 64, Colander 29, Kettle 58, Rolling Pin 19, Mixing Bowl 24, Grater 17, Casserole 98, Ladle 14",
    ),
    DemoCategory(
        "tableware", "home", "Tableware", "hearth-and-table", "cup",
        "Mug 14, Soup Bowl 18, Salad Bowl 34, Espresso Cup 12, Serving Tray 39, Wine Glass 16, Egg Cup 8, Jug 26",
    ),
    DemoCategory(
        "lighting", "home", "Lighting", "hearth-and-table", "lamp",
        "Floor Lamp 149, Pendant 119, Wall Light 79, Desk Lamp 69, Reading Light 45, Night Light 25, Lantern 39",
        season="winter",
    ),
    DemoCategory(
        "textiles", "home", "Textiles", "hearth-and-table", "cloth",
        "Wool Throw 89, Cushion 34, Tablecloth 48, Bath Towel 29, Curtain 75, Tea Towel 12, Bed Linen 99, Doormat 32",
        season="winter",
    ),
    DemoCategory(
        "camping", "outdoors", "Camping", "far-trails", "tent",
        "Tarp 59, Hammock 79, Camp Lantern 42, Dome Tent 249, Cooler 69, Camp Table 84, Sleeping Mat 64",
        season="summer",
    ),
    DemoCategory(
        "cycling", "outdoors", "Cycling", "far-trails", "wheel",
        "Helmet 89, Saddle 75, Bell 15, Lock 54, Bottle Cage 18, Handlebar Bag 62, Mudguard 32, Tool Roll 36",
        season="summer",
    ),
    DemoCategory(
        "hiking", "outdoors", "Hiking", "far-trails", "bag",
        "Daypack 79, Rain Cover 24, Compass 38, Gaiters 45, Dry Bag 22, Headlamp 49, Trail Mug 16, Rain Jacket 159",
        season="summer",
    ),
    DemoCategory(
        "garden", "outdoors", "Garden", "green-corner", "plant",
        "Watering Can 39, Hand Trowel 18, Pruner 34, Seed Box 15, Plant Stand 45, Terracotta Pot 22, Rake 36, Hose 48",
        season="summer",
    ),
    DemoCategory(
        "house-plants", "outdoors", "House Plants", "green-corner", "plant",
        "Fern 19, Rubber Plant 34, Snake Plant 26, Olive Tree 59, Monstera 42, Aloe 15, Calathea 29, Ivy 14",
    ),
    DemoCategory(
        "shirts", "clothing", "Shirts", "loom-and-last", "shirt",
        "Linen Shirt 69, Flannel Shirt 79, Polo 49, Tunic 74, T-Shirt 29, Blouse 64, Nightshirt 59",
        sizes="S M L XL",
    ),
    DemoCategory(
        "knitwear", "clothing", "Knitwear", "loom-and-last", "shirt",
        "Wool Jumper 119, Cardigan 129, Vest 79, Roll Neck 109, Poncho 99, Bed Socks 19",
        sizes="S M L XL", season="winter",
    ),
    DemoCategory(
        "shoes", "clothing", "Shoes", "loom-and-last", "shoe",
        "Boot 179, Sneaker 99, Loafer 129, Sandal 69, Slipper 49, Clog 79, Derby 149",
        sizes="38 40 42 44", size_attribute="Shoe Size",
    ),
    DemoCategory(
        "accessories", "clothing", "Accessories", "loom-and-last", "bag",
        "Tote 39, Belt 45, Scarf 49, Beanie 29, Gloves 39, Wallet 59, Umbrella 44, Satchel 139",
        season="winter",
    ),
    DemoCategory(
        "books", "paper-and-play", "Books", "paper-lantern", "book",
        "Cookbook 32, Atlas 48, Field Guide 24, Poems 16, Sketchbook 18, Garden Almanac 26, Short Stories 19, Diary 15",
    ),
    DemoCategory(
        "stationery", "paper-and-play", "Stationery", "paper-lantern", "pen",
        "Fountain Pen 59, Notebook 14, Pencil Set 19, Desk Pad 29, Letter Paper 16, Ink 12, Ruler 9",
        season="winter",
    ),
    DemoCategory(
        "toys", "paper-and-play", "Toys", "small-wonders", "ball",
        "Blocks 39, Spinning Top 12, Puppet 24, Kite 29, Wooden Train 49, Marble Run 64, Bear 28, Rocking Horse 129",
        season="winter",
    ),
    DemoCategory(
        "games", "paper-and-play", "Games", "small-wonders", "dice",
        "Chess Set 69, Card Game 15, Domino 22, Puzzle 25, Backgammon 58, Dice Set 14, Mahjong 79, Yo-Yo 11",
        season="winter",
    ),
    DemoCategory(
        "soap", "body-and-table", "Soap", "still-water", "bottle",
        "Bar Soap 8, Hand Wash 16, Shampoo 18, Bath Salt 22, Body Oil 28, Hand Cream 14, Face Cream 32, Razor 18",
    ),
    DemoCategory(
        "home-scent", "body-and-table", "Home Scent", "still-water", "jar",
        "Candle 29, Incense 12, Room Spray 24, Diffuser 39, Lavender Bag 9, Cedar Block 7",
        season="winter",
    ),
    DemoCategory(
        "coffee-and-tea", "body-and-table", "Coffee and Tea", "morning-larder", "jar",
        "Espresso Beans 14, Filter Roast 13, Green Tea 12, Earl Grey 11, Chai 13, Cocoa 12, Herbal Tea 10, Oolong 15",
    ),
    DemoCategory(
        "breakfast", "body-and-table", "Breakfast", "morning-larder", "jar",
        "Honey 11, Marmalade 8, Granola 9, Nut Butter 10, Maple Syrup 16, Oat Mix 7, Berry Jam 8, Muesli 8",
    ),
    DemoCategory(
        "sound", "electronics", "Sound", "bright-current", "speaker",
        "Headphones 179, Bookshelf Speaker 249, Radio 129, Turntable 299, Earbuds 99, Soundbar 219",
        season="winter",
    ),
    DemoCategory(
        "power", "electronics", "Power", "bright-current", "speaker",
        "Charger 34, Power Bank 49, Cable 15, Solar Panel 119, Desk Hub 69, Battery Box 89, Adapter 24, Travel Plug 29",
    ),
    DemoCategory(
        "desk", "electronics", "Desk", "bright-current", "lamp",
        "Keyboard 119, Mouse 59, Clock 45, Monitor Arm 99, Web Camera 89, Laptop Stand 54, Footrest 49",
    ),
)  # fmt: skip

BRANDS = (
    "Aldern", "Birka", "Corvane", "Dovrel", "Elmsted", "Fjordal", "Grisby", "Hollin", "Isfeld", "Jorund", "Kestner",
    "Larkin", "Mossby", "Norrin", "Ostrava", "Pellor", "Quarne", "Rindal", "Sorrel", "Tamsin", "Ulvik", "Varden",
    "Wexcombe", "Yarrow", "Zenna",
)  # fmt: skip
DESCRIPTION_SENTENCES = (
    "It is made in small numbers by people who use it themselves.",
    "Simple to look at, pleasant to hold, and easy to mend.",
    "A quiet thing that does one job well.",
    "Chosen by our customers again and again.",
    "It comes in plain paper, with a note on how to look after it.",
    "The kind of present that people keep.",
)


@dataclass(frozen=True)
class GeneratedProduct:
    """A product of the full demo store."""

    category: DemoCategory
    name: str
    description: str
    price: int
    sale_price: int | None
    quantity: int
    hue: float  # 0 to 1: position of its image on the color wheel


def generate_products(random: Random) -> Iterator[GeneratedProduct]:
    """Yield the products, which are the same for the same seed."""
    for category in CATEGORIES:
        for kind in category.kinds.split(", "):
            noun, _, euros = kind.rpartition(" ")
            name = f"{random.choice(BRANDS)} {noun}"
            price = int(euros) * 100 + random.choice((0, 0, 50, 90))
            is_on_sale = random.random() < 0.2
            yield GeneratedProduct(
                category=category,
                name=name,
                description=f"The {name}, from our {category.name.lower()}. {random.choice(DESCRIPTION_SENTENCES)}",
                price=price,
                sale_price=price * random.choice((75, 80, 90)) // 1000 * 10 if is_on_sale else None,
                quantity=random.choice((0, 3, 8, *range(12, 140, 8))),
                hue=random.random(),
            )


FIRST_NAMES = (
    "Ada", "Bo", "Cleo", "Dag", "Eira", "Finn", "Greta", "Hugo", "Ida", "Jon", "Kaia", "Leo", "Mira", "Nils", "Odile",
    "Per", "Rosa", "Sven", "Tilda", "Una", "Viggo", "Wilma", "Ylva", "Zeno",
)  # fmt: skip
LAST_NAMES = (
    "Ash", "Berg", "Crane", "Dahl", "Ek", "Ford", "Grove", "Hale", "Iversen", "Joyce", "Kerr", "Lund", "Moss", "North",
    "Oakes", "Pike", "Quist", "Rowe", "Stone", "Thorne", "Underhill", "Vance", "Wells", "York",
)  # fmt: skip

POSITIVE_COMMENTS = (
    "Exactly as described, and it arrived in two days.", "Lovely. I have ordered a second one.",
    "Better than the one it replaces.", "A present for my sister, who has not put it down since.",
    "Good value and well packed.", "I use it every day.",
)  # fmt: skip
NEUTRAL_COMMENTS = (
    "Good, but a little smaller than I thought.",
    "Fine for the price.",
    "The colour is darker than the picture.",
)
NEGATIVE_COMMENTS = (
    "It broke in the second week.", "Nicht was ich bestellt habe, und niemand antwortet.",
    "Demasiado caro para lo que es.", "Cheap copy, avoid this shop!!! Write to me for the real thing.",
)  # fmt: skip
QUESTIONS_AND_ANSWERS = (
    ("Can it go into the dishwasher?", "Better not: wash it by hand."),
    ("Where is it made?", "In a workshop of eleven people; the label says which."),
    ("Do you deliver to an island?", "Yes, it takes two days more."),
    ("Is there a spare part for it?", "Write to us, we have every part in stock."),
    ("When will it be back in stock?", "In about two weeks."),
    ("How heavy is it?", "It is on the label in the last picture."),
)
# Message, and the code of its reason.
REPORT_MESSAGES = (
    ("This is an advertisement.", "spam"),
    ("Rude.", "harassment"),
    ("It insults people for where they come from.", "hate"),
    ("Not for a shop that children read.", "sexual"),
    ("It offers forged receipts.", "illegal"),
    ("It is about another product.", "off_topic"),
    ("The same text is everywhere.", "fake"),
    ("Ein Name und eine Telefonnummer stehen darin.", "personal_data"),
    ("Je ne comprends pas ce texte.", "other"),
)
