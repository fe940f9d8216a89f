"""English words for the rules of descriptions: claims, kinds of products, forms of facts, and words without a claim."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _phrases(text: str) -> frozenset[str]:
    return frozenset(" ".join(phrase.replace("-", " ").split()) for phrase in text.split(";") if phrase.strip())


CLAIMS = {
    "material": _phrases("""
        acrylic; alpaca; aluminium; aluminum; bamboo; beech; birch; brass; bronze; canvas; carbon fibre; carbon fiber;
        cashmere; cast iron; ceramic; chrome; copper; cork; cotton; crystal; denim; enamel; faux leather; felt; flannel;
        fleece; foam; fur; glass; gold; golden; granite; hemp; hickory; iron; jute; latex; leather; linen; mahogany;
        maple; marble; memory foam; merino; mesh; metal; metallic; microfiber; microfibre; neoprene; nylon; oak; pine;
        plastic; polyester; porcelain; rattan; resin; rubber; satin; silicone; silk; silver; spandex; stainless; steel;
        stoneware; suede; teak; terracotta; tin; titanium; velvet; vinyl; walnut; wicker; wood; wooden; wool; woolen
    """),
    "size": _phrases("""
        all sizes; one size; size l; size large; size m; size medium; size s; size small; size xl; size xs
    """),
    "color": _phrases("""
        beige; black; blue; brown; gray; green; grey; navy; pink; purple; red; silvery; turquoise; white; yellow
    """),
    "certificate": _phrases("""
        approved; award; award winning; bpa free; certificate; certified; certification; cruelty free; dermatologist;
        fair trade; fda; fsc; gluten free; gots; guarantee; guaranteed; hypoallergenic; iso; kosher; lab tested; halal;
        non gmo; oeko tex; organic; organically; patented; tested; usda; vegan; vegetarian; warranty
    """),
    "origin": _phrases("""
        american; artisan; artisans; austrian; belgian; british; chinese; colombian; danish; dutch; ethiopian;
        european; family owned; finnish; french; german; germany; greek; handcrafted; handmade; hand made; hand
        crafted; imported; indian; irish; italian; italy; japan; japanese; local; locally; made in; mediterranean;
        moroccan; norwegian; polish made; portuguese; scandinavian; scottish; sourced; spanish; sustainably; swedish;
        swiss; turkish; vermont
    """),
    "health effect": _phrases("""
        allergy; allergies; anti aging; antibacterial; antioxidant; antioxidants; anxiety; arthritis; blood; boost;
        boosts; calories; circulation; cure; cures; detox; digestion; fitness level; hangover; heal; healing; heals;
        health; healthier; healthy; hydrate; hydrates; hydrated; hydrating; immune; immunity; insomnia; lose weight;
        low fat; massage; massages; medical; medicinal; metabolism; minerals; moisturize; moisturizes; moisturizing;
        muscle pain; nourish; nourishes; nourishing; nutrient; nutrients; nutritious; pain; pain relief; posture;
        protein; refreshes the mind; rejuvenate; rejuvenates; relief; relieve; relieves; soothe; soothes; soothing;
        stress; therapeutic; therapy; toxins; vitamin; vitamins; weight loss; well being; wellbeing; wellness; wrinkles
    """),
    "property": _phrases("""
        absorbent; adjustable; affordable; airtight; battery; biodegradable; bluetooth; breathable; cheap; cheapest;
        comfortable; compact; cordless; dishwasher; dishwasher safe; durable; durability; easy to clean; eco friendly;
        efficient; efficiency; efficiently; energy saving; environmentally; ergonomic; ergonomically; fast charging;
        faster; fastest; fireproof; foldable; free of charge; heat resistant; heavy duty; high quality; highest
        quality; inexpensive; insulated; leak proof; lightweight; long lasting; long life; low maintenance; machine
        washable; money; natural; non slip; non stick; non toxic; odor free; portable; powerful; premium; quick drying;
        rechargeable; recyclable; recycled; reliable; remote control; removable; resistant; reusable; robust;
        rustproof; safe; safely; scratch resistant; secure; securely; shipping; shockproof; silent; solar; spacious;
        stackable; stain resistant; stretchy; strong; strongest; sturdy; sustainable; tough; ultralight; unbreakable;
        usb; versatile; washable; water resistant; waterproof; weatherproof; wifi; windproof; wireless
    """),
}  # fmt: skip

NUMBER_WORDS = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11,
    "twelve": 12, "dozen": 12, "twenty": 20, "thirty": 30, "fifty": 50, "hundred": 100, "hundreds": 100,
    "thousand": 1000, "thousands": 1000, "million": 1_000_000, "percent": "%",
}  # fmt: skip

KINDS = _phrases("""
    apron; armchair; backpack; bag; basket; bathrobe; bed; belt; bench; bib; bicycle; bike; blanket; blender; board;
    book; bookshelf; boot; bottle; bowl; bracelet; broom; brush; bucket; cable; cake; calendar; camera; candle; cap;
    car; card; carpet; case; cereal; chair; charger; chocolate; clock; cloth; coat; collar; comb; computer; cookie;
    cream; cup; cushion; desk; detergent; doll; dress; drill; earring; fan; flask; flower; fork; fridge; game; glove;
    grater; grill; guitar; hammer; hammock; hat; headphone; helmet; hoodie; hose; jacket; jam; jar; jean; jug; juicer;
    kettle; keyboard; kite; knife; lamp; lantern; laptop; leash; lipstick; lock; lotion; mat; mattress; microphone;
    mirror; mixer; monitor; mop; mouse; mug; napkin; necklace; notebook; oven; painting; pan; pen; pencil; perfume;
    phone; pillow; planter; plate; poster; pot; printer; purse; puzzle; quilt; radio; razor; ring; rope; rug; sandal;
    sandwich; saw; scale; scarf; scissor; screwdriver; shampoo; shelf; shirt; shoe; skirt; slipper; soap; sock; sofa;
    soup; speaker; spoon; stool; stove; suitcase; sweater; table; tea; teapot; television; tent; tie; toaster;
    toothbrush; toothpaste; towel; toy; tractor; tripod; trouser; umbrella; vacuum; vase; wallet; watch; wine; wrench
""")

# Words that say nothing of a product. A text of these words and the given ones claims nothing that was not given.
PLAIN_WORDS = _words("""
    a about above add after again all allow allows along also among an and another answer any anything are as ask at
    away
    be because been before being below beside between both bring brings but buy by can check choice choose chosen
    closer color colors colour colours come comes coming could curious da day decide decided delight detail
    details did discover discovered do does doing done door down drum each either else enjoy enough ever every fact
    facts feature featured features featuring few find first for forward found from full further get gets getting
    give given gives glad glance go goes going good great greet guess had happy has have having hello here hi hold holds
    hope
    how i if in include included includes including indeed introduce introduced introduces introducing introduction
    invitation invite invited is it item items its itself join just keep key kind knock know known last lasts lay learn
    let lets like list listed little live look looking looks love lovely made make many may me measure measures
    measuring meet met might mind moment more most much must my name named need never new next nice no none nor not
    note now numbers of off offer offered offering offers oh on once one only open or order ordered orders other
    others our ours out over own page part parts perhaps pick picture pictures piece pieces please pleased pleasure
    present presented presenting presents product products promise proud proudly psst put question questions quick
    rated read ready rest right roll same saw say says see seen set sets several shop short should show showing
    shown shows sight simply size sizes so some something sort special specification specifications start step still
    stock stop such surprise ta take taken talk tell tempted than thank thanks that the their them themselves then
    there these they thing things think this those thought through time to together too treat true try turn two up
    us very wait want was way we weigh weighs welcome well were what whatever when where which while who why will wish
    with without word words would yes yet you your yours yourself
""")
# Words that name a use, a user or an occasion.
USES = _phrases("""
    anyone; beginner; beginners; best for; birthday; children; cooking; daily; designed; everyday; everyone; families;
    family; fans; gift; gifts; great for; home; homes; household; ideal; ideally; intended; kids; lovers; occasion;
    occasions; outdoors; parties; party; perfect; perfectly; professionals; suitable; suited; travel; travelers;
    travellers; whenever; wherever; whether
""")
COLOR_WORDS = _words("""
    amber aqua beige black blue bordeaux bright brown burgundy champagne charcoal clear copper coral cream cyan dark
    dusty forest gold golden gray green grey indigo ivory khaki lavender light lilac lime magenta maroon mint
    mustard natural navy olive orange pale pastel pink plum purple red rose royal ruby sand silver sky tan taupe
    teal terracotta turquoise vanilla violet white yellow
""")
UNITS = _words("""
    ah atm bar carat cl cm dl dpi fps ft g g/m2 gb ghz hours hz in inch inches k kg km kw kwh l lb liters litres lm
    lumens m mah mb mg mhz min minutes ml mm months oz p persons players tb v w watts wh years °c
""")
# Last words of facts that are parts of a product, in the singular.
PART_NOUNS = _words("""
    accent arm attachment back bag band bar base basket battery bell belt binding blade body bookmark border bottle
    bottom bowl box bracket brim bristle brush buckle bulb button buttonhole cable cap card case chain charger clasp
    clip closure coating collar color colour compartment cord core corner counter coupling cover cuff cushion dial
    dice display divider dock door drawer drawstring driver drum edge edition effect entrance fan filling filter
    finish flap fold frame front function gasket grip guarantee guard handle hanger harness head heel hem hinge hint
    holder hole hood hook index indicator inlay insert insole instruction interior jack jar joint key knob label
    lamp latch layer leg lens lense lever lid light line liner lining lock loop manual mechanism mode motor mount
    movement neck needle net note nozzle opening pad page panel partition pattern pen phone piece plate plug
    pocket point port pouch program programme pump rack rail recipe return rim ring rod roller rose rotor rule
    scale screen screw seal seat seed sensor shade sheet shelf shell shelve shut-off shutter shutter-off side sleeve
    slot socket sole speaker speed spoke spout spring stand stem step sticker stitch stone storage strap string
    stripe surface switch tab table tag tank tape tassel texture thread tie timer tin tip tool top tray trim tripod
    tube v-neck valve waist wall warranty weave weight wheel window wing wire wrap zip zipper
""")
MASS_NOUNS = _words("""
    cancellation cancelling charging citrus cocoa effects hardware honey insulation lighting moonstone packaging padding
    protection stitching storage sugar upholstery vanilla velcro wood
""")
EITHER_NOUNS = _words("aroma control dice embroidery flavor flavour foil fringe light scent")  # with "a" or without
INGREDIENTS = _words("butter extract milk oil")
MATERIAL_NOUNS = _words("bristle coir fabric paper wax")
KIND_NOUNS = _words("bestseller edition")  # what a product is
POLICIES = _words("guarantee returns warranty")
CONTAINERS = _words("bag bottle box case jar pack package packaging pouch set tin tube")
ADJECTIVES = _words("""
    abstract airy blank bold bright chic circular classic colorful colourful compact cordless cosy cozy crisp curved
    decorative delicate double dry easy electric elegant ergonomic extra fair fair-trade fine firm flat flexible
    fresh gentle geometric glossy gluten-free handmade handwoven handy heavy heirloom hollow hypoallergenic lace-up
    large light lightweight long loose-leaf low magnetic matt matte mechanical mini minimal minimalist modern modular
    narrow natural neutral non-slip non-stick non-toxic odourless organic oval over-ear perennial plain portable
    quiet rectangular retro robust rough round rugged safe sharp short silent simple single-origin sleek slim small
    smart smooth snug soft solid sparkling square stretchy strong sturdy thick thin tough ultralight vegan vegetarian
    vibrant vintage warm waterproof wide wireless wooden woollen
""")
ADJECTIVE_ENDINGS = (
    "able", "ible", "proof", "free", "resistant", "repellent", "less", "ful", "ous", "safe", "friendly", "ready", "ed",
    "mounted", "speed", "fit", "saving", "drying", "lasting", "wearing", "absorbing", "sized", "neutral", "duty",
)  # fmt: skip
# Words of names for the number of a product: "it is" or "they are".
NAME_SUFFIXES = _words("air go ii iii iv lite max mini one plus pro two ultra xl")
PAIRS = _words("""
    binoculars boxers briefs chopsticks clogs cufflinks earbuds earmuffs earphones glasses goggles leggings lights
    pants pliers pyjamas pajamas scissors shorts sunglasses tights tongs trousers tweezers
""")
# Words of names that take no article: "meet Velmo Tea", but "meet the Velmo Lamp".
MASS_PRODUCTS = _words("""
    balm beer bread brew butter cereal chai cheese chocolate cleaner coffee conditioner cream detergent flour food gel
    granola honey ink jam juice litter liquid lotion mascara matcha milk nougat oil paper pasta perfume polish popcorn
    powder rice salt sauce seed shampoo soap soil sugar sunscreen syrup tea thread vinegar water wine yarn
""")
SINGULAR_WITH_S = _words("atlas canvas gas lens series species")
