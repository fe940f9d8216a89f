"""Kinds of products in forty categories, with what a shop may state about them.

A kind is a noun and what it is for. `*` marks a plural noun and `~` one without an article. Kinds of `unseen` are never
in training; they measure the writer.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class ProductKind:
    """One kind of product. use: what it is for, as an infinitive without "to"; number: "one", "many" or "mass"."""

    noun: str
    use: str
    number: str
    category: "KindCategory"


@dataclass(frozen=True)
class KindCategory:
    """A family of kinds: places where they are used, and materials, adjectives, parts and figures that fit them."""

    name: str
    places: tuple[str, ...]
    materials: tuple[str, ...]
    adjectives: tuple[str, ...]
    parts: tuple[str, ...]
    figures: tuple[str, ...]


KINDS: list[ProductKind] = []
UNSEEN_KINDS: list[ProductKind] = []
NUMBERS = {"*": "many", "~": "mass"}


def split(text: str) -> tuple[str, ...]:
    """Return the phrases of a semicolon-separated text."""
    return tuple(" ".join(part.split()) for part in text.split(";") if part.strip())


def category(
    name: str, kinds: str, unseen: str, *, places: str, materials: str, adjectives: str, parts: str, figures: str
) -> None:
    """Add a category with its kinds, written as "noun: use; noun: use"."""
    of = KindCategory(name, split(places), split(materials), split(adjectives), split(parts), split(figures))
    for text, found in ((kinds, KINDS), (unseen, UNSEEN_KINDS)):
        for entry in split(text):
            noun, _, use = entry.partition(": ")
            found.append(ProductKind(noun.lstrip("*~"), use, NUMBERS.get(noun[0], "one"), of))


category(
    "kitchen appliances",
    "kettle: boil water for tea and coffee; toaster: toast bread; blender: blend fruit and vegetables; "
    "coffee grinder: grind coffee beans; rice cooker: cook rice; hand mixer: mix dough and batter; "
    "slow cooker: cook stews and soups; juicer: press juice from fruit; food processor: chop and slice ingredients; "
    "electric grill: grill meat and vegetables",
    "air fryer: cook fries and snacks; waffle maker: bake waffles",
    places="in the kitchen; on the worktop",
    materials="stainless steel; glass; aluminium",
    adjectives="compact; cordless; dishwasher-safe; quiet; retro",
    parts="auto shut-off; removable tray; digital display; non-slip base; cool-touch handle; timer",
    figures="1.7 l; 900 W; 2000 W; 3 speeds; 5 programmes",
)
category(
    "cookware",
    "frying pan: fry eggs, fish and meat; saucepan: heat sauces and soups; wok: stir-fry vegetables; "
    "casserole dish: braise and serve stews; baking tray: bake cookies and roast vegetables; cake tin: bake cakes; "
    "muffin tin: bake muffins; stockpot: cook stock and pasta; griddle pan: sear meat; roasting tin: roast joints",
    "crepe pan: make crepes and pancakes; pizza stone: bake pizza",
    places="on the hob; in the oven; in the kitchen",
    materials="cast iron; carbon steel; stainless steel; copper; ceramic",
    adjectives="non-stick; oven-safe; induction-ready; heavy; pre-seasoned",
    parts="glass lid; riveted handle; pouring lip; silicone grip; two handles",
    figures="24 cm; 28 cm; 3 l; 5 l; set of 3",
)
category(
    "tableware",
    "dinner plate: serve a main course; soup bowl: serve soup and cereal; coffee mug: drink coffee or tea; "
    "teapot: brew and pour tea; salad bowl: serve salad; cake stand: present cakes; serving platter: serve food; "
    "*wine glasses: drink wine; carafe: serve water and juice; *espresso cups: drink espresso",
    "gravy boat: pour gravy and sauces; *chopsticks: eat noodles and rice",
    places="on the table; at dinner; at breakfast",
    materials="porcelain; stoneware; glass; bone china; bamboo",
    adjectives="hand-glazed; stackable; dishwasher-safe; speckled; matte",
    parts="gold rim; drip-free spout; curved handle; bamboo lid; embossed pattern",
    figures="350 ml; 27 cm; set of 4; set of 6; 1.2 l",
)
category(
    "kitchen tools",
    "chef's knife: chop and slice; chopping board: cut food on; whisk: whisk eggs and cream; peeler: peel vegetables; "
    "grater: grate cheese; rolling pin: roll out dough; colander: drain pasta; can opener: open cans; "
    "garlic press: crush garlic; kitchen scale: weigh ingredients",
    "lemon squeezer: squeeze lemons and limes; pastry brush: glaze pies and pastries",
    places="in the kitchen; beside the stove",
    materials="beech; olive wood; stainless steel; silicone; bamboo",
    adjectives="sharp; foldable; dishwasher-safe; heat-resistant; slim",
    parts="soft grip; hanging loop; juice groove; blade guard; wooden handle",
    figures="20 cm; 5 kg; 30 x 20 cm; 18 cm; set of 2",
)
category(
    "food storage",
    "lunch box: carry lunch; storage jar: store flour and sugar; bread bin: store bread; spice rack: keep spices; "
    "water bottle: carry water; vacuum flask: carry hot drinks; cake carrier: transport cakes; "
    "butter dish: keep butter; *freezer bags: freeze food; cookie jar: keep cookies",
    "egg holder: keep eggs; bento box: carry meals",
    places="in the pantry; at the office; at school; on the shelf",
    materials="stainless steel; glass; bamboo; recycled plastic; tin",
    adjectives="leak-proof; BPA-free; stackable; insulated; airtight",
    parts="screw lid; carry handle; silicone seal; three compartments; label",
    figures="500 ml; 750 ml; 1 l; set of 5; 12 cm",
)
category(
    "tea and coffee",
    "~green tea: drink through the day; ~ground coffee: brew filter coffee; *coffee beans: brew espresso; "
    "~black tea: drink in the morning; ~herbal tea: drink in the evening; ~hot chocolate: drink on cold days; "
    "~chai: drink with milk; ~matcha: whisk with hot water; ~iced tea: drink cold; ~instant coffee: make a quick cup",
    "~rooibos tea: drink with or without milk; ~cold brew: drink over ice",
    places="at home; at the office; at breakfast",
    materials="loose leaves; whole leaves",
    adjectives="organic; fair-trade; decaffeinated; loose-leaf; single-origin",
    parts="notes of honey; resealable bag; hint of citrus; floral aroma; cocoa notes",
    figures="100 g; 250 g; 20 bags; 1 kg; 500 g",
)
category(
    "pantry food",
    "~olive oil: dress salads and cook; ~honey: sweeten tea and spread on bread; ~pasta: cook a quick dinner; "
    "~tomato sauce: serve with pasta; ~strawberry jam: spread on toast; ~granola: eat for breakfast; "
    "~peanut butter: spread on bread; ~chilli sauce: season dishes; ~sea salt: season food; "
    "~balsamic vinegar: dress salads",
    "~maple syrup: pour over pancakes; ~basmati rice: serve with curries",
    places="in the pantry; at the table; at breakfast",
    materials="whole grain; ripe tomatoes; raw honey",
    adjectives="organic; vegan; gluten-free; cold-pressed; unsweetened",
    parts="glass jar; screw cap; no added sugar; squeeze bottle; resealable pouch",
    figures="500 ml; 250 g; 340 g; 1 kg; pack of 3",
)
category(
    "snacks and sweets",
    "~dark chocolate: share or enjoy alone; *oat cookies: eat with coffee; *roasted almonds: snack on; "
    "*potato crisps: serve at parties; *fruit bars: take along as a snack; *gummy bears: share with friends; "
    "~popcorn: eat on film nights; *salted pretzels: nibble with drinks; *dried apricots: snack on; "
    "*rice cakes: top with spreads",
    "~nougat: offer after dinner; *cashew nuts: snack on",
    places="at home; on the road; at parties",
    materials="Belgian chocolate; whole oats; sea salt",
    adjectives="vegan; gluten-free; organic; crunchy; unsalted",
    parts="70% cocoa; resealable bag; hazelnut filling; hint of vanilla; no added sugar",
    figures="100 g; 85 g; pack of 6; 200 g; 12 pieces",
)
category(
    "lighting",
    "desk lamp: light a desk; floor lamp: light a corner; table lamp: light a side table; "
    "pendant light: light a dining table; night light: light a bedroom at night; *string lights: decorate a room; "
    "wall lamp: light a wall; bedside lamp: read in bed; lantern: light a path or table; ceiling light: light a room",
    "reading lamp: read at night; *fairy lights: decorate shelves and windows",
    places="in the living room; beside the bed; in the hallway",
    materials="brass; linen; oak; frosted glass; concrete",
    adjectives="dimmable; rechargeable; adjustable; wall-mounted; minimalist",
    parts="linen shade; touch switch; USB port; fabric cord; oak base",
    figures="40 cm; 10 W; 2700 K; 3 m; 150 cm",
)
category(
    "furniture",
    "bookshelf: store books; coffee table: hold drinks and magazines; armchair: sit and read; "
    "desk: work and write; dining table: eat together; bar stool: sit at the counter; shoe rack: store shoes; "
    "bedside table: keep things by the bed; wardrobe: store clothes; bench: sit in the hall",
    "TV stand: hold a television; rocking chair: sit and rock",
    places="in the living room; in the hallway; in the bedroom",
    materials="oak; walnut; pine; rattan; steel",
    adjectives="foldable; height-adjustable; flat-packed; solid; stackable",
    parts="two drawers; tapered legs; soft-close doors; cable slot; padded seat",
    figures="120 cm; 80 x 60 cm; 45 cm; 5 shelves; 4 legs",
)
category(
    "bedding",
    "duvet cover: cover a duvet; pillow: rest your head on; fitted sheet: cover a mattress; "
    "blanket: stay warm on the sofa; *pillowcases: cover pillows; bedspread: cover a bed; "
    "mattress topper: lay on a mattress; duvet: sleep under; throw: drape over a sofa; "
    "bolster: support the back in bed",
    "quilt: sleep under on cool nights; mattress protector: cover a mattress",
    places="in the bedroom; on the bed; in the guest room",
    materials="cotton; linen; wool; bamboo viscose; down",
    adjectives="machine-washable; soft; stonewashed; reversible; quilted",
    parts="button closure; elastic edge; piped edge; zip; corner ties",
    figures="140 x 200 cm; 200 x 220 cm; 50 x 70 cm; 300 thread count; set of 2",
)
category(
    "bathroom",
    "bath towel: dry off after a bath; bath mat: stand on after a shower; soap dispenser: dispense soap; "
    "shower curtain: keep water in the shower; toothbrush holder: hold toothbrushes; laundry basket: collect laundry; "
    "shower head: shower with; toilet brush: clean the toilet; bathrobe: wear after a bath; "
    "towel rack: hang towels on",
    "bath pillow: rest your head in the tub; shower caddy: hold shampoo and soap",
    places="in the bathroom; by the sink; in the shower",
    materials="cotton; bamboo; stoneware; teak; chrome",
    adjectives="quick-drying; absorbent; non-slip; wall-mounted; machine-washable",
    parts="hanging loop; suction cups; woven border; pump; lid",
    figures="70 x 140 cm; 300 ml; 500 g/m2; 180 x 200 cm; 3 settings",
)
category(
    "home decor",
    "vase: display flowers; picture frame: display photos; wall clock: tell the time; "
    "scented candle: scent a room; wall mirror: check how you look; cushion: decorate a sofa; rug: cover a floor; "
    "candle holder: hold a candle; wall print: decorate a wall; doormat: wipe shoes on",
    "snow globe: decorate a shelf; door wreath: decorate a door",
    places="in the living room; on the shelf; in the hall",
    materials="ceramic; velvet; jute; brass; glass",
    adjectives="hand-painted; handwoven; round; geometric; abstract",
    parts="wooden frame; tassels; lavender scent; hanging hook; silent movement",
    figures="30 cm; 50 x 70 cm; 40 hours; 160 x 230 cm; A3",
)
category(
    "cleaning",
    "vacuum cleaner: vacuum floors; mop: mop floors; *microfibre cloths: wipe surfaces; "
    "dish brush: wash dishes; ~laundry detergent: wash clothes; broom: sweep floors; *sponges: wash dishes; "
    "~glass cleaner: clean windows and mirrors; dustpan: collect dust; ~washing-up liquid: wash dishes",
    "lint roller: remove lint from clothes; feather duster: dust shelves",
    places="in the kitchen; around the house; in the bathroom",
    materials="bamboo; microfibre; coconut fibre; beech",
    adjectives="cordless; refillable; unscented; biodegradable; washable",
    parts="telescopic handle; spray bottle; lemon scent; HEPA filter; rubber edge",
    figures="1 l; 500 ml; pack of 10; 40 minutes; 130 cm",
)
category(
    "storage and organising",
    "storage basket: store toys and blankets; storage box: store things; coat hook: hang coats; "
    "drawer organiser: sort a drawer; jewellery box: keep jewellery; magazine holder: hold magazines; "
    "clothes hanger: hang clothes; key holder: hang keys; underbed box: store bedding; umbrella stand: hold umbrellas",
    "shoe box: store shoes; tie rack: hang ties",
    places="in the hallway; in the wardrobe; in the office",
    materials="seagrass; felt; cotton rope; bamboo; metal",
    adjectives="foldable; stackable; handwoven; wall-mounted; transparent",
    parts="lid; leather handles; six compartments; velvet lining; label holder",
    figures="30 l; 40 x 30 cm; set of 3; 5 hooks; 12 cm",
)
category(
    "garden",
    "watering can: water plants; plant pot: grow plants; garden hose: water the garden; *secateurs: prune branches; "
    "*garden gloves: protect hands at work; garden chair: sit outside; bird feeder: feed birds; "
    "rake: rake leaves; trowel: plant flowers; wheelbarrow: move soil",
    "compost bin: collect garden waste; hammock: lie between trees",
    places="in the garden; on the balcony; on the terrace",
    materials="terracotta; galvanised steel; teak; ash wood; zinc",
    adjectives="foldable; frost-resistant; adjustable; lightweight; rustproof",
    parts="drainage hole; spray nozzle; ash handle; removable rose; metal hooks",
    figures="10 l; 20 m; 30 cm; size M; 80 l",
)
category(
    "plants and seeds",
    "*tomato seeds: grow tomatoes; *sunflower seeds: grow sunflowers; ~potting soil: pot plants; "
    "~plant food: feed houseplants; snake plant: green a room; *tulip bulbs: grow tulips; "
    "*basil seeds: grow basil; succulent: green a windowsill; bonsai kit: grow a bonsai; "
    "*wildflower seeds: grow a meadow",
    "herb kit: grow herbs; *pumpkin seeds: grow pumpkins",
    places="in the garden; on the windowsill; on the balcony",
    materials="coconut coir; peat-free compost",
    adjectives="organic; heirloom; peat-free; easy to sow; perennial",
    parts="instructions; clay pot; resealable bag; labels; wooden box",
    figures="50 seeds; 10 bulbs; 20 l; 15 cm; 500 ml",
)
category(
    "hand tools",
    "hammer: drive nails; screwdriver set: turn screws; tape measure: measure lengths; handsaw: cut wood; "
    "*pliers: grip and bend wire; spirit level: level shelves and pictures; adjustable wrench: turn nuts and bolts; "
    "utility knife: cut cardboard; tool box: store tools; chisel: carve wood",
    "hex key set: turn hex screws; staple gun: fix fabric to wood",
    places="in the workshop; on the building site; at home",
    materials="chrome vanadium steel; hickory; carbon steel; fibreglass",
    adjectives="magnetic; compact; shock-absorbing; insulated; retractable",
    parts="rubber grip; belt clip; carry case; replaceable blades; locking button",
    figures="5 m; 16 oz; 12 pieces; 60 cm; 25 mm",
)
category(
    "power tools",
    "cordless drill: drill holes and drive screws; jigsaw: cut curves; circular saw: cut boards; "
    "sander: sand wood; angle grinder: cut and grind metal; heat gun: strip paint; glue gun: glue materials; "
    "hedge trimmer: trim hedges; leaf blower: clear leaves; lawn mower: mow the lawn",
    "pressure washer: wash patios and cars; chainsaw: cut logs",
    places="in the workshop; in the garden; in the garage",
    materials="magnesium; steel",
    adjectives="cordless; brushless; quiet; compact; variable-speed",
    parts="LED light; carry case; two batteries; side handle; dust bag",
    figures="18 V; 1200 W; 125 mm; 2.0 Ah; 40 cm",
)
category(
    "phone accessories",
    "phone case: protect a phone; screen protector: protect a screen; phone stand: hold a phone upright; "
    "wireless charger: charge a phone; power bank: charge devices on the go; charging cable: charge devices; "
    "car phone mount: hold a phone in the car; selfie stick: take photos; wall charger: charge devices; "
    "phone strap: carry a phone",
    "phone grip: hold a phone with one hand; card holder: keep cards on a phone",
    places="at home; at the office; on the go",
    materials="silicone; leather; tempered glass; recycled plastic; aluminium",
    adjectives="slim; magnetic; foldable; transparent; shockproof",
    parts="USB-C port; raised edges; braided cable; card slot; LED indicator",
    figures="10000 mAh; 2 m; 20 W; 6.1 inch; pack of 2",
)
category(
    "audio",
    "*headphones: listen to music; *earbuds: listen on the go; bluetooth speaker: play music; "
    "soundbar: hear television sound; record player: play records; microphone: record voices; "
    "alarm clock radio: wake up and listen to radio; karaoke machine: sing at parties; "
    "headphone stand: hold headphones; portable radio: listen to radio",
    "subwoofer: add bass to a sound system; voice recorder: record meetings",
    places="at home; on the go; in the living room",
    materials="walnut; aluminium; fabric; vegan leather",
    adjectives="wireless; foldable; rechargeable; over-ear; compact",
    parts="noise cancelling; charging case; volume dial; Bluetooth 5.3; carry pouch",
    figures="30 hours; 20 W; 40 mm drivers; 300 g; 3.5 mm jack",
)
category(
    "computers and office tech",
    "wireless mouse: point and click; keyboard: type; laptop stand: raise a laptop; USB hub: connect devices; "
    "webcam: make video calls; monitor arm: hold a monitor; laptop sleeve: carry a laptop; mouse pad: move a mouse on; "
    "external hard drive: store files; desk mat: protect a desk",
    "memory card: store photos; graphics tablet: draw on a computer",
    places="on the desk; in the office; at home",
    materials="aluminium; felt; vegan leather; recycled plastic",
    adjectives="wireless; mechanical; foldable; quiet; adjustable",
    parts="USB-C port; backlit keys; privacy shutter; magnetic flap; four ports",
    figures="1 TB; 1080p; 15 inch; 90 x 40 cm; 2.4 GHz",
)
category(
    "cameras and optics",
    "camera bag: carry a camera; tripod: hold a camera steady; *binoculars: watch birds and landscapes; "
    "instant camera: take instant photos; telescope: look at the night sky; camera strap: carry a camera; "
    "ring light: light photos and videos; photo printer: print photos; lens cap: protect a lens; "
    "photo album: collect photos",
    "magnifying glass: read small print; microscope: look at small things",
    places="outdoors; at home; in the studio",
    materials="aluminium; canvas; carbon fibre; leather",
    adjectives="foldable; lightweight; adjustable; compact; padded",
    parts="carry bag; quick-release plate; phone adapter; rain cover; ball head",
    figures="10x42; 160 cm; 12 inch; 70 mm; 40 pages",
)
category(
    "stationery",
    "notebook: write notes; fountain pen: write letters; desk calendar: plan the month; *colour pencils: draw; "
    "pencil case: carry pens; stapler: staple paper; *sticky notes: leave reminders; weekly planner: plan the week; "
    "document folder: sort papers; *gift cards: send greetings",
    "highlighter set: mark text; letter opener: open letters",
    places="on the desk; at school; at the office",
    materials="recycled paper; leather; brass; linen; cedar",
    adjectives="refillable; dotted; hardcover; lined; spiral-bound",
    parts="ribbon bookmark; elastic band; pen loop; inner pocket; gold foil",
    figures="A5; 120 pages; set of 12; 0.5 mm; 90 g/m2",
)
category(
    "books and paper crafts",
    "cookbook: find recipes; sketchbook: draw and sketch; colouring book: colour pictures; "
    "puzzle book: solve puzzles; travel journal: record trips; recipe binder: collect recipes; "
    "~origami paper: fold figures; scrapbook: keep memories; bookmark: mark a page; ~wrapping paper: wrap gifts",
    "guest book: collect wishes; comic book: read",
    places="at home; on the road; at the table",
    materials="recycled paper; linen; kraft paper; cotton paper",
    adjectives="hardcover; illustrated; blank; spiral-bound; signed",
    parts="ribbon; index; lay-flat binding; stickers; pocket",
    figures="200 pages; A4; 50 sheets; 80 recipes; 120 g/m2",
)
category(
    "art supplies",
    "watercolour set: paint pictures; *acrylic paints: paint on canvas; easel: hold a canvas; "
    "*paint brushes: paint; canvas: paint on; *oil pastels: draw; modelling clay: model figures; "
    "calligraphy set: write by hand; *markers: draw and label; paint palette: mix paint",
    "stencil set: draw shapes; ~printing ink: print by hand",
    places="in the studio; at home; at school",
    materials="cotton; beech; linen; hog bristle",
    adjectives="washable; water-based; non-toxic; foldable; lightfast",
    parts="metal tin; mixing tray; fine tips; storage case; wooden frame",
    figures="24 colours; 50 x 70 cm; 12 pieces; 75 ml; 500 g",
)
category(
    "sewing and knitting",
    "~merino yarn: knit and crochet; *knitting needles: knit; sewing kit: mend clothes; sewing machine: sew; "
    "*fabric scissors: cut fabric; embroidery kit: embroider; crochet hook: crochet; pin cushion: keep pins; "
    "~sewing thread: sew by hand or machine; yarn bowl: hold yarn",
    "weaving loom: weave; *buttons: close shirts and coats",
    places="at home; on the sofa; in the workroom",
    materials="merino wool; cotton; bamboo; alpaca; birch",
    adjectives="hand-dyed; soft; colourful; circular; pre-wound",
    parts="storage case; instructions; ergonomic handle; hoop; velvet top",
    figures="100 g; 4 mm; 200 m; 30 colours; 12 stitches",
)
category(
    "women's clothing",
    "summer dress: wear on warm days; blouse: wear at work; cardigan: wear on cool evenings; skirt: wear every day; "
    "jumpsuit: wear to parties; *leggings: wear at home or for sport; tunic: wear over trousers; "
    "kimono: wear over a dress; *pyjamas: sleep in; trench coat: wear in spring and autumn",
    "poncho: wear on cool days; wrap top: wear with jeans",
    places="at work; at home; in town",
    materials="linen; cotton; viscose; merino wool; silk",
    adjectives="soft; machine-washable; wrinkle-free; sleeveless; pleated",
    parts="side pockets; V-neck; elastic waist; tie belt; button front",
    figures="size M; sizes S to XL; 110 cm; 200 g/m2; 95% cotton",
)
category(
    "men's clothing",
    "t-shirt: wear every day; denim jacket: wear over a shirt; *chinos: wear at work; polo shirt: wear in summer; "
    "hoodie: wear at home and outdoors; *swim shorts: swim; flannel shirt: wear on cool days; "
    "*jeans: wear every day; suit jacket: wear to formal events; vest: wear under a jacket",
    "bow tie: wear with a suit; *boxer shorts: wear every day",
    places="at work; in town; at the weekend",
    materials="cotton; denim; wool; linen; flannel",
    adjectives="slim-fit; organic; breathable; stretchy; machine-washable",
    parts="chest pocket; ribbed collar; drawstring; zip pockets; metal buttons",
    figures="size L; sizes M to XXL; 180 g/m2; 34 inch; 100% cotton",
)
category(
    "shoes",
    "*running shoes: run; *leather boots: walk in autumn and winter; *sandals: walk on warm days; "
    "*slippers: wear at home; *hiking boots: hike; *ballet flats: wear every day; *rain boots: walk in the rain; "
    "*sneakers: walk in town; *loafers: wear at work; *flip-flops: wear at the pool",
    "*clogs: wear in the garden; *espadrilles: wear in summer",
    places="in town; outdoors",
    materials="leather; suede; canvas; wool felt; cork",
    adjectives="waterproof; lightweight; breathable; vegan; lace-up",
    parts="rubber sole; memory foam insole; side zip; padded collar; adjustable strap",
    figures="size 42; sizes 36 to 41; 3 cm heel; 280 g; 10 mm drop",
)
category(
    "bags and luggage",
    "backpack: carry things; tote bag: carry shopping; suitcase: pack for trips; wallet: carry cards and cash; "
    "crossbody bag: carry small things; gym bag: carry sports clothes; messenger bag: carry a laptop; "
    "toiletry bag: carry toiletries; belt bag: carry small things; duffel bag: pack for the weekend",
    "passport holder: carry a passport; garment bag: transport suits",
    places="on trips; at work; in town",
    materials="leather; canvas; recycled nylon; cotton; vegan leather",
    adjectives="water-repellent; foldable; lightweight; hand-stitched; expandable",
    parts="laptop sleeve; zip pocket; four wheels; padded straps; key clip",
    figures="20 l; 35 l; 15 inch; 55 cm; 8 card slots",
)
category(
    "jewellery and watches",
    "necklace: wear every day; bracelet: wear on the wrist; *hoop earrings: wear every day; ring: wear on a finger; "
    "wristwatch: tell the time; brooch: pin on a coat; anklet: wear on the ankle; *stud earrings: wear every day; "
    "pocket watch: tell the time; charm: hang on a bracelet",
    "*cufflinks: close shirt cuffs; tiara: wear at weddings",
    places="at work; at parties; every day",
    materials="sterling silver; gold-plated brass; leather; freshwater pearls; rose gold",
    adjectives="handmade; adjustable; minimalist; engraved; delicate",
    parts="gift box; lobster clasp; moonstone; leather strap; date display",
    figures="45 cm; 38 mm; 18 carat; 5 ATM; 2 mm",
)
category(
    "accessories",
    "scarf: keep the neck warm; sun hat: shade the face; *sunglasses: shade the eyes; belt: hold up trousers; "
    "*gloves: keep hands warm; beanie: keep the head warm; umbrella: stay dry in the rain; *socks: wear in shoes; "
    "tie: wear with a shirt; headband: hold back hair",
    "*earmuffs: keep ears warm; hair clip: hold hair",
    places="in winter; outdoors; in town",
    materials="wool; cashmere; cotton; straw; acetate",
    adjectives="knitted; foldable; soft; windproof; reversible",
    parts="wide brim; metal buckle; UV400 lenses; fringe; bamboo handle",
    figures="180 x 30 cm; one size; 95 cm; size 39-42; pack of 5",
)
category(
    "skin and hair care",
    "~face cream: care for the face; ~shampoo: wash hair; ~hand cream: care for hands; "
    "~body lotion: care for the body; "
    "~lip balm: care for lips; ~shower gel: wash in the shower; ~bar soap: wash hands; ~hair oil: care for hair; "
    "~face mask: treat the face; ~bath salt: bathe",
    "~sunscreen: apply before going out; ~beard oil: care for a beard",
    places="in the bathroom; at home; on trips",
    materials="shea butter; aloe vera; almond oil; oat milk",
    adjectives="vegan; unscented; cruelty-free; handmade; refillable",
    parts="rose scent; pump bottle; aluminium tube; lavender oil; glass jar",
    figures="50 ml; 200 ml; 100 g; SPF 30; 15 ml",
)
category(
    "make-up and grooming",
    "~mascara: colour lashes; lipstick: colour lips; make-up brush: apply powder; electric toothbrush: brush teeth; "
    "hair dryer: dry hair; electric shaver: shave; nail file: file nails; hairbrush: brush hair; "
    "~nail polish: colour nails; compact mirror: check make-up",
    "eyelash curler: curl lashes; *tweezers: shape eyebrows",
    places="in the bathroom; at the dressing table; on trips",
    materials="bamboo; stainless steel; boar bristle; rose gold",
    adjectives="vegan; rechargeable; foldable; matte; cordless",
    parts="travel case; two brush heads; ionic function; mirror lid; soft bristles",
    figures="8 ml; 2000 W; 2 minutes; 3 attachments; 4 g",
)
category(
    "baby",
    "baby blanket: wrap a baby; baby bottle: feed a baby; *bibs: keep clothes clean at meals; "
    "baby carrier: carry a baby; changing mat: change nappies; pram: take a baby for walks; "
    "bodysuit: dress a baby; baby monitor: hear a baby; cot mobile: hang over a cot; high chair: seat a child at meals",
    "*muslin cloths: wipe and wrap; bottle warmer: warm bottles",
    places="at home; in the nursery; on the go",
    materials="organic cotton; muslin; bamboo; silicone; beech",
    adjectives="soft; machine-washable; BPA-free; foldable; adjustable",
    parts="snap buttons; harness; waterproof lining; night light; removable tray",
    figures="0 to 6 months; 260 ml; 100 x 100 cm; set of 3; up to 15 kg",
)
category(
    "toys and games",
    "wooden train set: play trains; jigsaw puzzle: solve together; board game: play together; teddy bear: cuddle; "
    "building blocks set: build towers; doll: play with; card game: play on evenings; kite: fly on windy days; "
    "play kitchen: play cooking; toy car: play with",
    "yo-yo: play tricks; spinning top: spin",
    places="in the playroom; at home; at the table",
    materials="beech; organic cotton; recycled plastic; plush; cardboard",
    adjectives="hand-painted; colourful; soft; foldable; wooden",
    parts="storage bag; rules; magnetic couplings; sound effects; dice",
    figures="1000 pieces; 2 to 6 players; ages 3 and up; 30 cm; 45 minutes",
)
category(
    "sports and fitness",
    "yoga mat: practise yoga; *dumbbells: train arms; skipping rope: skip; football: play football; "
    "tennis racket: play tennis; foam roller: roll out muscles; *resistance bands: train at home; "
    "*boxing gloves: box; swimming cap: swim; basketball: play basketball",
    "badminton set: play badminton; *swim goggles: swim",
    places="at home; at the gym; in the park",
    materials="natural rubber; cork; neoprene; cast iron; latex",
    adjectives="non-slip; adjustable; foldable; lightweight; inflatable",
    parts="carry strap; foam handles; mesh bag; digital counter; alignment lines",
    figures="6 mm; 2 x 5 kg; size 5; 3 m; 183 x 61 cm",
)
category(
    "outdoor and cycling",
    "tent: camp; sleeping bag: sleep outdoors; camping stove: cook outdoors; head torch: see in the dark; "
    "bike helmet: protect the head on a bike; bike lock: lock a bike; bike light: be seen at night; "
    "picnic blanket: picnic; cool box: keep drinks cold; *trekking poles: walk on trails",
    "fishing rod: fish; bike pump: inflate tyres",
    places="at the campsite; on the trail; on the road",
    materials="aluminium; ripstop nylon; steel; polyester; titanium",
    adjectives="waterproof; ultralight; foldable; rechargeable; windproof",
    parts="carry bag; two entrances; quick-release buckle; red light mode; phone pocket",
    figures="2 persons; 1.2 kg; 300 lumens; 24 l; -5 °C",
)
category(
    "pets",
    "dog leash: walk a dog; dog bed: give a dog a place to sleep; cat tree: let cats climb and scratch; "
    "~cat litter: fill a litter box; food bowl: feed a pet; dog collar: hold an ID tag; "
    "~dog food: feed adult dogs; cat toy: play with a cat; pet carrier: transport a pet; fish tank: keep fish",
    "~bird seed: feed pet birds; dog coat: dress a dog in winter",
    places="at home; on walks; in the living room",
    materials="nylon; cotton rope; stainless steel; sisal; leather",
    adjectives="washable; adjustable; grain-free; reflective; non-slip",
    parts="padded handle; removable cover; metal clip; chicken flavour; bell",
    figures="2 m; 5 kg; 60 x 80 cm; 25 l; 1.5 l",
)
