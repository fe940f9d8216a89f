"""What the generator knows of products: groups of kinds, and the kinds themselves.

Phrases are separated by semicolons. In a `does` phrase ``{s}`` and ``{es}`` mark the ending of the verb, which a plural
product and an infinitive go without; ``{it}`` and ``{its}`` agree with the product's number.
"""

from dataclasses import dataclass


def phrases(text: str) -> tuple[str, ...]:
    """The phrases of a semicolon-separated text."""
    return tuple(part.strip() for part in text.split(";") if part.strip())


@dataclass(frozen=True)
class Group:
    """What a family of products shares: materials, uses (gerunds), places, people, moments and care (imperatives)."""

    materials: tuple[str, ...]
    uses: tuple[str, ...]
    places: tuple[str, ...]
    people: tuple[str, ...]
    moments: tuple[str, ...]
    care: tuple[str, ...]


@dataclass(frozen=True)
class Kind:
    """One kind of product: its nouns (all of one number), its parts (with their articles) and what it does."""

    group: str
    nouns: tuple[str, ...]
    parts: tuple[str, ...]
    does: tuple[str, ...]
    plural: bool = False


def group(*, materials: str, uses: str, places: str, people: str, moments: str, care: str) -> Group:
    """A group from semicolon-separated phrases."""
    return Group(*(phrases(text) for text in (materials, uses, places, people, moments, care)))


def kind(group: str, nouns: str, parts: str, does: str, *, plural: bool = False) -> Kind:
    """A kind from semicolon-separated phrases."""
    return Kind(group, phrases(nouns), phrases(parts), phrases(does), plural)


GROUPS = {
    "lighting": group(
        materials="brushed brass; opal glass; powder-coated steel; natural linen; turned ash wood; spun aluminium",
        uses="reading in bed; working late; lighting a dark corner; setting the mood at dinner; winding down",
        places="on a bedside table; next to the sofa; on a desk by the window; in a quiet hallway; beside an armchair",
        people="late readers; night owls; people who dislike harsh light; anyone with a dim corner; home workers",
        moments="on dark evenings; after sunset; during long winters; before sleep",
        care="dust {it} with a dry cloth; unplug {it} and wipe the surface; keep {it} away from water",
    ),
    "furniture": group(
        materials="solid oak; bent beech; oiled walnut; woven cane; recycled steel; birch plywood",
        uses="long dinners; hosting friends; putting the day aside; entertaining in small rooms; studying",
        places="in the living room; by the front door; under a window; at the end of the bed; in a home office",
        people="growing families; first-time renters; collectors of good wood; people with little space",
        moments="every day; at the end of a long week; on slow Sundays; when guests arrive",
        care="wipe {it} with a damp cloth; oil the wood once a year; tighten the screws now and then",
    ),
    "drinkware": group(
        materials="glazed stoneware; thick porcelain; borosilicate glass; double-walled steel; hand-thrown clay",
        uses="the first coffee; a slow cup of tea; sharing hot cocoa; iced drinks in summer; busy commutes",
        places="on the breakfast table; on a crowded desk; in a cup holder; on an open shelf; at a picnic",
        people="coffee lovers; tea drinkers; early risers; commuters; people who sip slowly",
        moments="in the morning; on cold afternoons; between meetings; at sunrise",
        care="rinse {it} with warm water; put {it} in the dishwasher; let {it} dry upside down",
    ),
    "cookware": group(
        materials="cast iron; tri-ply steel; carbon steel; hard-anodised aluminium; enamelled iron; maple wood",
        uses="weeknight dinners; searing vegetables; simmering soups; baking at home; cooking for a crowd",
        places="on the stove; in a small kitchen; on an open fire; at the centre of the table; on a hook by the hob",
        people="home cooks; patient bakers; students with one shelf; people who cook from scratch",
        moments="on busy weeknights; on lazy weekends; when friends stay for supper; at every meal",
        care="wash {it} by hand; dry {it} at once; rub {it} with a little oil; let {it} cool before washing",
    ),
    "textile": group(
        materials="washed linen; organic cotton; lambswool; brushed flannel; bamboo viscose; merino wool",
        uses="afternoon naps; sleeping on cool nights; layering; making up a guest room; quiet mornings",
        places="over the back of a sofa; on the bed; in a reading nook; on the guest bed; by the fireplace",
        people="light sleepers; people with cold feet; nap takers; lovers of soft things; allergy sufferers",
        moments="when the weather turns; all year round; on rainy days; after a bath",
        care="wash {it} at thirty degrees; hang {it} out to dry; shake {it} out before use; iron {it} while damp",
    ),
    "clothing": group(
        materials="combed cotton; merino wool; brushed fleece; recycled nylon; soft jersey; waxed canvas",
        uses="weekend walks; cool evenings; travelling light; working outdoors; everyday wear",
        places="in the city; on the trail; at the office; under a coat; at the market",
        people="walkers; cyclists; people who travel with one bag; minimalists; those who feel the cold",
        moments="from spring to autumn; on windy days; from morning to night; when it drizzles",
        care="wash {it} inside out; dry {it} flat; skip the tumble dryer; use a gentle detergent",
    ),
    "footwear": group(
        materials="full-grain leather; knitted mesh; natural rubber; suede; cork; waxed canvas",
        uses="long walks; city errands; morning runs; standing all day; walking forest paths",
        places="on wet streets; on gravel; around town; at work; on the way to the park",
        people="runners; waiters on their feet all day; hikers; commuters; people with wide feet",
        moments="in any weather; from the first step; mile after mile; on muddy days",
        care="brush off the dirt; air {it} after a long day; treat the leather with wax; wipe the soles clean",
    ),
    "bag": group(
        materials="waxed canvas; vegetable-tanned leather; ripstop nylon; recycled polyester; heavy twill",
        uses="daily commutes; weekend trips; carrying groceries; going to the gym; air travel",
        places="under an airplane seat; on a bike rack; in an overhead bin; at the farmers' market; in a locker",
        people="commuters; students; frequent flyers; photographers; parents on the move",
        moments="on the way to work; every weekend; when plans change; in sudden rain",
        care="wipe {it} with a damp sponge; empty the pockets and air {it}; treat {it} with wax once a season",
    ),
    "audio": group(
        materials="matte aluminium; soft silicone; woven fabric; recycled plastic; walnut veneer",
        uses="listening on the train; calls from home; working out; podcasts while cooking; late-night albums",
        places="on a bookshelf; at the gym; in an open office; on the kitchen counter; on a crowded train",
        people="music lovers; remote workers; podcast fans; gamers; vinyl collectors",
        moments="on the daily ride; after work; on long flights; during workouts",
        care="wipe {it} with a soft cloth; store {it} in a dry place; update the software from time to time",
    ),
    "computing": group(
        materials="anodised aluminium; matte plastic; tempered glass; braided nylon; brushed steel",
        uses="remote work; writing; editing photos; gaming; video calls; studying abroad",
        places="on a tidy desk; in a laptop bag; at a co-working table; beside a monitor; in a dorm room",
        people="programmers; writers; students; designers; people who work from anywhere",
        moments="through long workdays; on deadline nights; on the road; from nine to five",
        care="clean {it} with compressed air; keep {it} dry; unplug {it} when not in use",
    ),
    "stationery": group(
        materials="recycled paper; cloth-bound board; solid brass; cedar wood; stitched leather",
        uses="daily notes; sketching; planning the week; writing letters; keeping a journal",
        places="in a coat pocket; on a desk; in a school bag; at a cafe table; next to the phone",
        people="list makers; students; sketchers; poets; people who think on paper",
        moments="in meetings; on the train; at the start of the year; whenever an idea strikes",
        care="keep {it} dry; store {it} flat; keep {it} out of direct sun",
    ),
    "toy": group(
        materials="untreated beech; organic cotton; food-grade silicone; smooth maple; recycled cardboard",
        uses="rainy afternoons; quiet play; family evenings; learning to count; birthday parties",
        places="on the playroom floor; at grandma's house; in the back seat; around the kitchen table; in the nursery",
        people="curious children; patient builders; parents; grandparents; young inventors",
        moments="on rainy days; after school; on holidays; before bedtime",
        care="wipe {it} with a damp cloth; keep the pieces in the box; air-dry {it} after washing",
    ),
    "beauty": group(
        materials="cold-pressed oils; shea butter; pure beeswax; oat extract; plant-based ingredients",
        uses="caring for dry skin; a calm morning routine; soothing sensitive hands; travel; an evening ritual",
        places="on the bathroom shelf; in a gym bag; beside the sink; in a handbag; on a nightstand",
        people="people with sensitive skin; gardeners with rough hands; frequent travellers; new parents",
        moments="after a shower; before bed; in dry winter air; every morning",
        care="store {it} in a cool place; close the lid after use; use {it} within a year",
    ),
    "food": group(
        materials="whole ingredients; sun-dried fruit; organic grain; hand-picked leaves; raw honey",
        uses="breakfast; a quick lunch; sharing with friends; filling gift baskets; an afternoon break",
        places="on the breakfast table; in a lunch box; in the pantry; on a cheese board; at a picnic",
        people="curious eaters; busy mornings; hikers; people who read labels; hosts",
        moments="in the morning; at tea time; after a long hike; on special days",
        care="store {it} in a dry place; keep {it} out of the sun; close the pack after opening",
    ),
    "garden": group(
        materials="galvanised steel; terracotta; forged carbon steel; ash wood; recycled plastic",
        uses="tending a balcony garden; filling raised beds; watering seedlings; pruning roses; weekend planting",
        places="on a balcony; by the back door; in a greenhouse; on a sunny sill; in the shed",
        people="balcony gardeners; herb growers; beginners; people with green thumbs; rose lovers",
        moments="from spring to frost; in the early morning; after the rain; all season",
        care="rinse off the soil; store {it} indoors in winter; hang {it} up to dry; oil the metal now and then",
    ),
    "pet": group(
        materials="tough nylon; washable fleece; natural rubber; stainless steel; soft cotton rope",
        uses="daily walks; long naps; road trips; training; playing fetch",
        places="by the sofa; in the car; at the park; in a warm corner; next to the food bowl",
        people="dog owners; cat people; puppies; older pets; busy households with animals",
        moments="on every walk; at feeding time; on muddy days; after dinner",
        care="wash {it} in cold water; rinse {it} after use; wipe {it} clean; let {it} air-dry",
    ),
    "sport": group(
        materials="natural rubber; cork; forged steel; recycled foam; breathable mesh; aluminium alloy",
        uses="home workouts; morning stretches; strength training; warm-ups; team practice",
        places="in a home gym; in a spare room; at the park; in a studio; at the club",
        people="beginners; trainers; runners; yoga students; weekend athletes",
        moments="before breakfast; three times a week; on rest days; after work",
        care="wipe {it} after training; let {it} air out; keep {it} out of the sun",
    ),
    "outdoor": group(
        materials="ripstop nylon; titanium; aluminium poles; goose down; hard-wearing polyester",
        uses="weekend camping; alpine hikes; beach days; fishing trips; nights under the stars",
        places="at base camp; in the back of a car; on the shore; deep in the woods; on a rooftop",
        people="campers; hikers; anglers; festival goers; families who sleep outdoors",
        moments="in wind and rain; on clear nights; far from the road; at first light",
        care="dry {it} before packing; store {it} loosely; brush off the sand; rinse {it} with fresh water",
    ),
    "tool": group(
        materials="forged steel; hardened alloy; hickory; glass-filled nylon; chrome vanadium",
        uses="weekend repairs; hanging shelves; model building; fixing bikes; jobs around the house",
        places="in the toolbox; in a kitchen drawer; on the workbench; in the van; in a garage",
        people="makers; new homeowners; tinkerers; carpenters; people who mend things",
        moments="when something breaks; on moving day; job after job; in tight spots",
        care="wipe {it} with an oiled rag; keep {it} dry; store {it} in the case",
    ),
    "decor": group(
        materials="hand-blown glass; soy wax; raw clay; aged brass; pressed flowers; recycled paper",
        uses="creating a calm living room; giving as a housewarming present; dressing a shelf; laying festive tables; brightening a bare wall",
        places="on the mantelpiece; in the hallway; on a window sill; above the bed; on a side table",
        people="hosts; new homeowners; collectors; lovers of simple things; people who change rooms often",
        moments="in the evening light; through every season; when guests come; on quiet nights",
        care="dust {it} gently; keep {it} out of draughts; wipe {it} with a soft cloth",
    ),
    "jewellery": group(
        materials="sterling silver; recycled gold; freshwater pearl; brushed steel; rose gold; smoked sapphire glass",
        uses="everyday wear; formal evenings; anniversaries; layering; celebrating a first big success",
        places="at a wedding; at the office; over a plain shirt; on a night out; at a long dinner",
        people="people who wear one good thing; graduates; brides; punctual souls; minimalists",
        moments="day and night; on special occasions; year after year; at every celebration",
        care="polish {it} with a soft cloth; keep {it} in the pouch; take {it} off before swimming",
    ),
    "music": group(
        materials="solid spruce; mahogany; maple; brass; rosewood; hand-stitched leather",
        uses="campfire songs; daily practice; first lessons; small stages; recording at home",
        places="on stage; in a practice room; at the campfire; in the living room; at a street corner",
        people="beginners; songwriters; buskers; teachers; players who travel",
        moments="from the first chord; night after night; at every rehearsal; on slow evenings",
        care="wipe {it} after playing; keep {it} in the case; mind the humidity",
    ),
    "cleaning": group(
        materials="coconut fibre; plant-based soap; beech wood; recycled plastic; stainless steel",
        uses="daily dishes; spring cleaning; wiping up small spills; cleaning hard floors; keeping a hallway tidy",
        places="under the sink; in the laundry room; behind the door; in a small flat; by the bath",
        people="busy parents; pet owners; tidy people; students; people who hate clutter",
        moments="after dinner; once a week; on cleaning day; in a minute",
        care="rinse {it} after use; hang {it} up to dry; replace the head when worn",
    ),
    "any": group(
        materials="carefully chosen materials; recycled materials; honest materials; durable materials",
        uses="everyday life; busy days; home and away; gifts; daily use; small celebrations",
        places="at home; at work; on the road; in any room; wherever you need {it}",
        people="people who value good design; practical minds; busy people; those who like simple things",
        moments="every day; year after year; from the first day; whenever it counts",
        care="follow the short guide in the box; wipe {it} with a soft cloth; keep {it} in a dry place",
    ),
}

KINDS = (
    kind("lighting", "lamp; desk lamp; table lamp; reading lamp", "a weighted base; a linen shade; a touch dimmer; a long fabric cord; an arm that tilts", "cast{s} a soft, even light; warm{s} up any room; stay{s} cool to the touch; bring{s} the glow exactly where you want it"),
    kind("lighting", "lantern; garden lantern", "a hinged door; a sturdy handle; a flicker-free bulb; clear panes", "glow{s} for hours; throw{s} a gentle pattern on the wall; stand{s} up to the wind"),
    kind("lighting", "pendant; pendant light; ceiling light", "an adjustable cable; a wide dome; a hidden bulb; a canopy that hides the wiring", "pull{s} a room together; spread{s} light without glare; draw{s} the eye upward"),
    kind("lighting", "string lights; fairy lights", "tiny bulbs; a hidden timer; a solar panel; three modes", "turn a plain wall into a scene; add a warm sparkle; wrap around a balcony rail", plural=True),
    kind("furniture", "chair; dining chair; side chair", "a curved backrest; tapered legs; a wide seat; hidden joints", "support{s} the back for hours; stack{s} away neatly; hold{s} {its} shape year after year"),
    kind("furniture", "armchair; lounge chair", "deep cushions; broad armrests; a high back; removable covers", "invite{s} you to sit longer; hug{s} the shoulders; make{s} a corner feel finished"),
    kind("furniture", "table; dining table; side table", "rounded edges; a hidden drawer; a smooth top; sturdy trestle legs", "seat{s} everyone with room to spare; shrug{s} off spills; take{s} on character with age"),
    kind("furniture", "shelf; bookshelf; wall shelf", "five deep boards; invisible brackets; an open back; a slim frame", "keep{s} books in order; turn{s} a blank wall into storage; carr{ies} heavy volumes without bending"),
    kind("furniture", "sofa; couch", "feather-filled cushions; washable covers; a low back; solid legs", "fit{s} through narrow doors; seat{s} three in comfort; double{s} as a guest bed"),
    kind("furniture", "stool; bar stool; step stool", "a footrest; a round seat; non-slip feet; a handle cut into the top", "tuck{s} under the counter; lift{s} you to the top shelf; weigh{s} next to nothing"),
    kind("furniture", "desk; standing desk; writing desk", "a cable tray; two shallow drawers; a spacious top; an adjustable frame", "give{s} your work a proper home; keep{s} cables out of sight; rise{s} without a sound"),
    kind("drinkware", "mug; coffee mug; cup", "a wide handle; a thick rim; a speckled glaze; a flat base", "keep{s} drinks hot; feel{s} good in both hands; hold{s} a generous pour"),
    kind("drinkware", "bottle; water bottle; drinking bottle", "a leak-proof cap; a carrying loop; a wide mouth; a slim body", "keep{s} water cold all day; slip{s} into any side pocket; replace{s} a pile of plastic"),
    kind("drinkware", "teapot; pot", "a drip-free spout; a fine strainer; a snug lid; a bamboo handle", "pour{s} without a drop lost; let{s} the leaves open slowly; serve{s} four cups"),
    kind("drinkware", "tumbler; travel mug; travel cup", "a slide-shut lid; a soft grip; a silicone base; double walls", "survive{s} a bumpy ride; fit{s} most car holders; seal{s} tight"),
    kind("drinkware", "glasses; wine glasses; tumblers", "thin rims; weighted bases; a gentle curve; straight sides", "catch the light; stack in a small cupboard; suit water as well as wine", plural=True),
    kind("cookware", "pan; frying pan; skillet", "a riveted handle; two pouring lips; a flat bottom; a helper grip", "brown{s} food evenly; go{es} from hob to oven; get{s} better with age"),
    kind("cookware", "pot; stockpot; casserole", "a tight lid; two sturdy handles; a thick bottom; measuring marks", "hold{s} heat for slow cooking; feed{s} six; move{s} from stove to table"),
    kind("cookware", "knife; kitchen knife; chef's knife", "a full tang; a balanced grip; a fine edge; a rounded spine", "glide{s} through tomatoes; stay{s} sharp; make{s} quick work of herbs"),
    kind("cookware", "board; cutting board; chopping board", "a juice groove; rubber feet; an end-grain surface; a hanging hole", "go{es} easy on blades; lie{s} perfectly still; double{s} as a serving plate"),
    kind("cookware", "kettle; electric kettle", "a slender spout; a clear dial; a lid that locks; an easy-pour handle", "boil{s} water in minutes; whistle{s} softly when ready; pour{s} with precision"),
    kind("cookware", "grinder; coffee grinder; pepper mill", "a ceramic burr; a fold-away crank; a tight jar; a click wheel", "grind{s} beans to an even size; release{s} the full aroma; work{s} without a plug"),
    kind("cookware", "bowls; mixing bowls; serving bowls", "rolled rims; fitted lids; non-slip bottoms; pouring lips", "nest inside one another; go straight to the table; keep leftovers fresh", plural=True),
    kind("textile", "blanket; throw; wool blanket", "fringed edges; a double weave; a stitched border; a soft nap", "trap{s} warmth without weight; drape{s} beautifully; soften{s} with every wash"),
    kind("textile", "pillow; cushion", "a hidden zip; a piped edge; an inner that keeps its loft; a removable cover", "support{s} the neck; bounce{s} back overnight; add{s} colour to a plain chair"),
    kind("textile", "towel; bath towel; beach towel", "a hanging loop; a deep pile; a flat border; a ribbed weave", "soak{s} up water quickly; dr{ies} between swims; fold{s} down small"),
    kind("textile", "rug; carpet; runner", "bound edges; a low pile; a non-slip back; a hand-knotted pattern", "soften{s} every step; hide{s} small stains; quiet{s} a noisy room"),
    kind("textile", "curtains; drapes", "wide hems; brass eyelets; a blackout lining; a generous fall", "soften harsh daylight; keep the heat in; frame the window gracefully", plural=True),
    kind("textile", "sheets; bed sheets; pillowcases", "deep corners; mother-of-pearl buttons; a crisp weave; neat seams", "breathe through warm nights; feel cool at first touch; stay put until morning", plural=True),
    kind("clothing", "jacket; rain jacket; coat", "a deep hood; taped seams; roomy pockets; a two-way zip", "keep{s} out wind and rain; pack{s} into {its} own pocket; layer{s} over a thick sweater"),
    kind("clothing", "sweater; jumper; cardigan", "ribbed cuffs; a high collar; horn buttons; saddle shoulders", "hold{s} warmth without bulk; move{s} with you; keep{s} {its} form after washing"),
    kind("clothing", "shirt; T-shirt; tee", "a neat collar; a relaxed cut; double stitching; a curved hem", "feel{s} light on the skin; breathe{s} on hot days; go{es} with everything"),
    kind("clothing", "scarf; wool scarf", "rolled edges; long fringes; a woven stripe; a generous width", "wrap{s} twice with ease; seal{s} out the cold; finish{es} a plain outfit"),
    kind("clothing", "hat; beanie; cap", "a folded brim; a snug fit; an adjustable strap; a soft lining", "stay{s} on in the wind; cover{s} the ears; fold{s} into a pocket"),
    kind("clothing", "gloves; winter gloves; mittens", "touchscreen tips; long cuffs; padded palms; a warm lining", "keep fingers nimble; shut out the chill; grip a handlebar firmly", plural=True),
    kind("clothing", "socks; hiking socks", "cushioned soles; flat toe seams; ribbed legs; reinforced heels", "stay up without pinching; wick sweat away; prevent blisters", plural=True),
    kind("clothing", "trousers; pants; jeans", "deep pockets; a gusset for movement; a flat waistband; reinforced knees", "stretch where it matters; keep a clean line; shrug off light rain", plural=True),
    kind("footwear", "sneakers; trainers; running shoes", "cushioned soles; padded collars; a roomy toe box; reflective tabs", "spring back with each stride; need no breaking in; let feet breathe", plural=True),
    kind("footwear", "boots; hiking boots; ankle boots", "grippy treads; sealed seams; pull tabs; a snug ankle", "grip wet rock; can be resoled; keep feet dry", plural=True),
    kind("footwear", "slippers; house shoes", "felted uppers; quiet soles; a fleece lining; a shaped footbed", "warm cold toes; slip on without hands; pad silently across the floor", plural=True),
    kind("bag", "backpack; rucksack; daypack", "padded straps; a laptop sleeve; hidden pockets; a roll-top closure", "spread{s} the load evenly; swallow{s} a weekend's clothes; sit{s} close to the back"),
    kind("bag", "tote; tote bag; shopper", "long handles; an inner pocket; a flat bottom; a magnetic clasp", "carr{ies} more than it seems; fold{s} to the size of a hand; stand{s} up by itself"),
    kind("bag", "wallet; card holder", "six card slots; a coin pouch; a slim fold; hand-sewn edges", "slide{s} into a front pocket; keep{s} cards in order; age{s} gracefully"),
    kind("bag", "suitcase; carry-on; duffel bag", "silent wheels; a packing divider; a combination lock; a telescopic handle", "roll{s} over cobbles; meet{s} cabin limits; open{s} flat for packing"),
    kind("audio", "headphones; earphones; earbuds", "plush ear pads; a folding hinge; clear microphones; a braided cable", "block out the noise around you; rest lightly on the ears; reveal every detail of a song", plural=True),
    kind("audio", "speaker; bluetooth speaker; portable speaker", "a carrying strap; two passive radiators; a rubber foot; simple buttons", "fill{s} a room with rich sound; play{s} from breakfast to midnight; pair{s} in seconds"),
    kind("audio", "radio; alarm clock; clock radio", "a large dial; a snooze bar; a clear display; preset stations", "wake{s} you gently; find{s} stations fast; glow{s} softly at night"),
    kind("audio", "turntable; record player", "a balanced arm; a dust cover; a belt drive; a heavy platter", "let{s} old records sing; spin{s} without a rumble; connect{s} to any amplifier"),
    kind("computing", "keyboard; mechanical keyboard", "hot-swap switches; a volume knob; sculpted keycaps; a detachable cable", "answer{s} every stroke with a crisp click; switch{es} between three devices; save{s} space for your mouse"),
    kind("computing", "mouse; wireless mouse", "a silent wheel; side buttons; a thumb rest; a charging dock", "track{s} on nearly any surface; fit{s} the palm; run{s} for months"),
    kind("computing", "charger; power bank; charging station", "three outputs; a fold-away plug; status lights; a short cord", "top{s} up a phone before lunch; power{s} several devices at once; slip{s} in a pocket"),
    kind("computing", "laptop stand; monitor arm; stand", "rubber pads; a cable clip; a smooth hinge; an open frame", "bring{s} the screen to eye level; free{s} up the desktop; hold{s} steady while you type"),
    kind("computing", "camera; webcam; action camera", "a privacy shutter; a wide lens; a tripod thread; a bright viewfinder", "capture{s} sharp pictures in low light; focus{es} by itself; record{s} smooth video"),
    kind("computing", "phone case; tablet sleeve; laptop sleeve", "raised corners; a velvet lining; a magnetic flap; precise cutouts", "guard{s} against scratches; soften{s} every drop; add{s} almost no bulk"),
    kind("computing", "smartwatch; fitness tracker", "a bright screen; a soft band; a heart-rate sensor; two physical buttons", "count{s} steps quietly; last{s} a full week; show{s} messages at a glance"),
    kind("stationery", "notebook; journal; planner", "numbered pages; an elastic band; a ribbon marker; a back pocket", "open{s} flat; take{s} ink without bleeding; last{s} a whole year"),
    kind("stationery", "pen; fountain pen; ballpoint", "a fine nib; a solid clip; a refillable cartridge; a tapered grip", "write{s} from the first touch; rest{s} easily in the hand; leave{s} a clean line"),
    kind("stationery", "pencils; coloured pencils", "soft cores; lacquered barrels; a tin box; numbered shades", "blend beautifully; hold a sharp point; glide over rough paper", plural=True),
    kind("toy", "puzzle; jigsaw", "thick pieces; a linen finish; a storage pouch; a folded guide", "bring{s} everyone to the table; train{s} patience; reward{s} a sharp eye"),
    kind("toy", "building blocks; blocks; wooden blocks", "sanded edges; water-based colours; a canvas sack; arches and beams", "turn into towers and bridges; teach balance; click together firmly", plural=True),
    kind("toy", "teddy bear; plush toy; soft toy", "stitched eyes; floppy arms; a velvety coat; a tiny pocket", "listen{s} to every secret; survive{s} the washing machine; keep{s} bad dreams away"),
    kind("toy", "board game; card game", "a folding map; wooden tokens; clear rules; a deck of beautiful cards", "take{s} five minutes to learn; change{s} with each round; keep{s} four players laughing"),
    kind("toy", "kite; model kit; train set", "numbered parts; bright panels; a winder; illustrated instructions", "take{s} off in a light breeze; come{s} together in an afternoon; make{s} children look up from screens"),
    kind("beauty", "soap; hand soap; bar soap", "a creamy lather; a fresh scent; a paper wrapper; gentle grains", "clean{s} without drying; rinse{s} off easily; leave{s} a light scent"),
    kind("beauty", "face cream; hand cream; cream", "a light texture; a pump that doses well; a glass jar; a mild fragrance", "sink{s} in quickly; calm{s} dry patches; leave{s} no greasy film"),
    kind("beauty", "shampoo; conditioner", "a refill pouch; a herbal scent; a soft foam; a drip-free cap", "rinse{s} clean; bring{s} back shine; suit{s} fine hair"),
    kind("beauty", "hairbrush; brush; comb", "rounded bristles; an airy cushion; a wide paddle; a slim handle", "glide{s} through knots; massage{s} the scalp; tame{s} stray hair"),
    kind("beauty", "razor; safety razor; shaver", "a weighted handle; a fine head; a travel case; long-life blades", "give{s} a close shave; spare{s} sensitive spots; end{s} plastic waste"),
    kind("food", "tea; green tea; herbal tea", "whole leaves; a resealable tin; hints of citrus; a floral note", "brew{s} to a clear gold; calm{s} a busy mind; taste{s} fresh to the last cup"),
    kind("food", "coffee; coffee beans; espresso", "notes of cocoa; a velvety body; a freshness valve; a low acidity", "fill{s} the kitchen with aroma; suit{s} filter and espresso alike; wake{s} you kindly"),
    kind("food", "chocolate; dark chocolate", "roasted nuts; a clean snap; sea salt flakes; a paper wrapper", "melt{s} slowly; pair{s} well with coffee; satisf{ies} with one piece"),
    kind("food", "honey; jam; marmalade", "a spoon-thick texture; a screw-top jar; pieces of real fruit; a bright colour", "spread{s} easily; sweeten{s} tea and yoghurt; taste{s} of summer"),
    kind("food", "granola; muesli; snack bar", "toasted oats; crunchy seeds; dried berries; a hint of cinnamon", "stay{s} crisp in milk; give{s} lasting energy; need{s} no added sugar"),
    kind("food", "olive oil; hot sauce; spice mix", "a peppery finish; a dark bottle; a pouring cap; a fruity start", "lift{s} a simple salad; wake{s} up leftovers; turn{s} plain bread into a treat"),
    kind("garden", "planter; flower pot; pot", "a drainage hole; a matching saucer; a wide rim; a matte surface", "give{s} roots room to grow; hold{s} moisture longer; suit{s} herbs and flowers alike"),
    kind("garden", "watering can; can", "a long spout; a fine rose; a balanced handle; a rust-proof coat", "reach{es} the back row; pour{s} a soft rain; empt{ies} to the last drop"),
    kind("garden", "shears; pruning shears; secateurs", "a safety catch; sharp blades; cushioned grips; a strong spring", "cut cleanly; spare the wrist; handle thick stems", plural=True),
    kind("garden", "trowel; hand trowel; spade", "a pointed tip; a long socket; depth marks; a leather loop", "dig{s} into hard soil; last{s} for decades; feel{s} light to work with"),
    kind("pet", "dog bed; cat bed; pet bed", "raised sides; a machine-washable cover; a non-slip bottom; a thick filling", "cradle{s} tired legs; keep{s} out draughts; survive{s} muddy paws"),
    kind("pet", "leash; dog leash; dog collar", "a padded handle; a solid clip; reflective stitching; a quick-release buckle", "give{s} you control without tugging; shine{s} in the dark; dr{ies} fast"),
    kind("pet", "cat toy; dog toy; chew toy", "a soft squeak; a bouncing core; knotted ends; a treat chamber", "keep{s} clever animals busy; clean{s} teeth during play; float{s} on water"),
    kind("sport", "yoga mat; exercise mat; mat", "alignment lines; a carrying strap; a closed surface; bevelled edges", "cushion{s} knees and wrists; grip{s} even when wet; roll{s} up tight"),
    kind("sport", "dumbbells; weights; kettlebells", "knurled grips; flat sides; a colour-coded coat; a compact rack", "build strength at home; stay where you put them; never chip the floor", plural=True),
    kind("sport", "bike; bicycle; city bike", "a low step; a belt drive; puncture-proof tyres; a front rack", "climb{s} hills with ease; ride{s} quietly; need{s} little upkeep"),
    kind("sport", "helmet; bike helmet", "wide vents; a rear light; a turn dial; a magnetic buckle", "sit{s} lightly on the head; pass{es} strict safety tests; adjust{s} with one hand"),
    kind("sport", "skipping rope; resistance band; foam roller", "soft grips; a carry pouch; a smooth surface; clear markings", "loosen{s} tight muscles; raise{s} the pulse; travel{s} anywhere"),
    kind("outdoor", "tent; dome tent; family tent", "two vestibules; a taped floor; colour-coded poles; mesh windows", "go{es} up in five minutes; withstand{s} heavy showers; sleep{s} two in comfort"),
    kind("outdoor", "sleeping bag; hammock", "a two-way zip; a stuff sack; a drawstring hood; strong seams", "hold{s} heat on frosty nights; pack{s} down small; lull{s} you to sleep"),
    kind("outdoor", "cooler; cool box; lunch box", "thick walls; a drain plug; locking clips; folding handles", "keep{s} ice frozen for days; double{s} as a seat; carr{ies} a picnic for four"),
    kind("outdoor", "flashlight; headlamp; torch", "a rotating head; a red mode; a pocket clip; a rechargeable cell", "light{s} the path ahead; fit{s} under a hat; switch{es} on with gloved hands"),
    kind("outdoor", "umbrella; parasol", "a vented canopy; a curved handle; fibreglass ribs; an automatic button", "turn{s} gusts away; open{s} with one press; shelter{s} two"),
    kind("outdoor", "sunglasses; ski goggles; swim goggles", "polarised lenses; flexible arms; a hard case; anti-fog coating", "cut glare; sit comfortably for hours; show the world in true colours", plural=True),
    kind("tool", "drill; cordless drill; screwdriver", "a bright work light; a keyless chuck; a magnetic tip; a rubber grip", "drive{s} screws without slipping; reach{es} tight corners; charge{s} in half an hour"),
    kind("tool", "hammer; axe; wrench", "a shock-absorbing grip; a polished head; a hanging eye; a slim jaw", "land{s} where you aim; take{s} years of knocks; balance{s} well"),
    kind("tool", "tool box; tool set; storage box", "fitted trays; metal latches; clear labels; a top handle", "keep{s} every piece in {its} place; carr{ies} easily; stack{s} with others"),
    kind("decor", "candle; scented candle", "a cotton wick; a reusable jar; a cedar scent; a long burn time", "burn{s} cleanly; fill{s} the air with calm; flicker{s} without smoke"),
    kind("decor", "vase; flower vase", "a narrow neck; a rippled surface; a heavy foot; a gentle tint", "flatter{s} a single stem; hold{s} a full bouquet; look{s} good even empty"),
    kind("decor", "mirror; wall mirror", "a slim frame; a leather strap; bevelled edges; a tilting mount", "open{s} up a narrow hall; double{s} the daylight; hang{s} in two directions"),
    kind("decor", "poster; art print; picture frame", "deep colours; a wide border; archival inks; a solid backing", "bring{s} life to bare walls; start{s} conversations; resist{s} fading"),
    kind("decor", "clock; wall clock", "slender hands; a sweep movement; clear numerals; a domed face", "keep{s} time without ticking; read{s} well from across the room; run{s} on one battery"),
    kind("decor", "basket; storage basket; laundry basket", "leather handles; a removable liner; a tight weave; a fitted lid", "hide{s} the clutter; carr{ies} a full load; look{s} tidy in any room"),
    kind("jewellery", "watch; wristwatch", "a domed crystal; a date window; a quick-change strap; luminous hands", "tell{s} time at a glance; slip{s} under a cuff; run{s} for years"),
    kind("jewellery", "necklace; pendant; bracelet", "a fine chain; a secure clasp; a gift box; an adjustable length", "catch{es} the light; sit{s} close to the collar; layer{s} well with others"),
    kind("jewellery", "earrings; ear studs", "smooth posts; a soft pouch; matching stones; secure backs", "frame the face; weigh almost nothing; go from desk to dinner", plural=True),
    kind("jewellery", "ring; wedding ring", "a rounded inner edge; a hammered surface; a single stone; a slim band", "slide{s} on smoothly; mark{s} a promise; hold{s} {its} shine"),
    kind("music", "guitar; acoustic guitar; ukulele", "low action; a slim neck; brass tuners; a padded gig bag", "sing{s} with a warm tone; stay{s} in tune; welcome{s} small hands"),
    kind("music", "drum; cajon; tambourine", "a tuned skin; a padded seat; bright jingles; a wooden shell", "keep{s} a steady beat; answer{s} the lightest tap; fill{s} a small stage"),
    kind("cleaning", "broom; mop; brush", "dense bristles; a hinged head; a telescopic handle; a dustpan that clips on", "reach{es} under furniture; pick{s} up pet hair; stand{s} up alone"),
    kind("cleaning", "detergent; dish soap; all-purpose cleaner", "a refillable bottle; a lemon scent; a measured cap; biodegradable ingredients", "cut{s} through grease; leave{s} no streaks; go{es} easy on hands"),
    kind("cleaning", "vacuum cleaner; robot vacuum; vacuum", "a washable filter; a see-through bin; a swivel head; a charging base", "lift{s} dust from deep carpets; run{s} quietly; turn{s} around chair legs"),
)  # fmt: skip

ANYTHING = kind(
    "any",
    "companion; piece; choice; all-rounder; everyday companion; favourite",
    "clean lines; a thoughtful shape; a neat finish; well-made details; a timeless look; careful workmanship",
    "do{es} {its} job well; fit{s} right in; make{s} small tasks easier; earn{s} {its} place; hold{s} up to daily use; look{s} as good as new for years",
)  # fmt: skip
