"""The word lists that names and keywords are drawn from."""

from inference.builtin.corpus.product_kinds import phrases

MASS_ENDINGS = phrases("""
    ite; ium; ex; on; ene; ane; fibre; wool; silk; weave; steel; wood; foam; tex; lon; cell; core; grain; flax
""")
ADJECTIVE_ENDINGS = phrases("""
    ic; al; ous; ish; y; ive; ed; able; ent; less; ful; proof; free; -grade; -style; an; ary; ine
""")
COUNT_ENDINGS = phrases("""
    er; or; et; ling; lock; grip; clip; dial; valve; hinge; strap; port; ring; band; plate
""")
NAME_WORDS = phrases("""
    amber; anchor; apple; arrow; aspen; atlas; aurora; autumn; badger; bamboo; barley; basil; bay; beacon; bear;
    birch; blossom; blue; bold; branch; breeze; bright; brook; canyon; cedar; chestnut; cliff; cloud; clover; coast;
    comet; copper; coral; cosmic; cotton; crane; creek; crown; crystal; dawn; deep; deer; delta; desert; dove; dream;
    drift; dune; dusk; eagle; earth; echo; elm; ember; evening; falcon; feather; fern; field; finch; fire; first;
    fjord; flint; forest; fox; frost; garden; ginger; glacier; golden; granite; green; grove; gull; harbor; hare;
    harvest; hawk; hazel; heath; heron; hill; hollow; honey; horizon; indigo; iron; island; ivory; ivy; jade; jasper;
    juniper; kind; lake; lark; laurel; lavender; leaf; lemon; lilac; lily; linden; little; lotus; lucky; luna; lynx;
    magnolia; maple; marble; marigold; meadow; midnight; mint; mist; moon; morning; moss; mountain; nectar; night;
    noble; north; nova; oak; ocean; olive; onyx; opal; orbit; orchid; otter; owl; paper; peak; pearl; pebble; pepper;
    petal; pilot; pine; pioneer; plum; polar; pond; poppy; prairie; pure; quartz; quiet; quill; rain; raven; red;
    reed; ridge; river; robin; rocket; rose; rowan; ruby; rustic; saffron; sage; sail; salt; sand; scarlet; sea;
    shadow; shell; shore; silent; silver; sky; slate; slow; snow; solar; solstice; south; sparrow; spring; spruce;
    star; stone; storm; stream; summer; summit; sun; swallow; swan; swift; thistle; thunder; thyme; tide; tiger;
    timber; topaz; trail; true; tulip; twin; urban; valley; velvet; violet; walnut; wander; water; wave; west; whale;
    wild; willow; wind; winter; wolf; wonder; wren; zen; zephyr
""")
SUFFIXES = phrases("""
    Pro; Plus; Mini; Max; Lite; One; Two; Go; Air; XL; II; III; Classic; Studio; Home; Original; Sport; Duo
""")
ADJECTIVES = phrases("""
    adjustable; affordable; airy; all-natural; antique; aromatic; artisanal; balanced; biodegradable; bold;
    breathable; bright; calming; certified; chic; classic; colourful; comfortable; compact; cordless; cosy; cozy;
    crisp; cruelty-free; curved; custom; dainty; decorative; delicate; dependable; detachable; discreet;
    dishwasher-safe; durable; eco-friendly; efficient; elegant; ergonomic; ethical; everyday; extendable; fair-trade;
    festive; firm; flexible; foldable; fragrant; fresh; functional; gentle; giftable; glossy; gluten-free; graceful;
    hand-painted; handcrafted; handmade; handwoven; handy; hard-wearing; healthy; heat-resistant; heavy-duty;
    heirloom; hypoallergenic; iconic; innovative; insulated; intuitive; inviting; kid-friendly; leak-proof; light;
    lightweight; limited; local; long-lasting; luxurious; machine-washable; matte; mellow; minimal; minimalist;
    modern; modular; natural; neutral; non-slip; non-toxic; nostalgic; odour-free; organic; original; oversized;
    padded; pastel; patterned; personal; playful; plush; pocket-sized; polished; portable; practical; precise;
    premium; quiet; quick-drying; rare; rechargeable; reclaimed; recyclable; recycled; refillable; refined; reliable;
    retro; reusable; reversible; robust; romantic; roomy; rugged; rustic; safe; scented; scratch-resistant; seasonal;
    secure; sensitive; shockproof; silent; simple; sleek; slim; smart; smooth; snug; soft; solar-powered; soothing;
    sophisticated; spacious; stackable; stain-resistant; stretchy; strong; sturdy; stylish; subtle; sugar-free;
    supportive; sustainable; tactile; thick; thin; timeless; tough; traditional; trendy; ultralight; understated;
    unisex; unscented; upcycled; vegan; versatile; vibrant; vintage; wall-mounted; warm; washable; water-resistant;
    waterproof; weatherproof; whimsical; wide; windproof; wireless; woven; wrinkle-free
""")
MATERIALS = phrases("""
    acacia; acrylic; alpaca; aluminium; aluminum; bamboo; beech; beeswax; birch; bone china; brass; bronze; canvas;
    carbon fibre; cashmere; cast iron; cedar; ceramic; cherry wood; clay; concrete; copper; cork; corduroy; cotton;
    crystal; denim; down; elm; enamel; felt; flannel; fleece; foam; glass; gold; granite; graphite; hemp; hickory;
    iron; jute; latex; leather; linen; mahogany; maple; marble; memory foam; merino; mesh; neoprene; nylon; oak; olive
    wood; organic cotton; paper; pewter; pine; plywood; polyester; porcelain; rattan; resin; rose gold; rosewood;
    rubber; satin; seagrass; sheepskin; silicone; silk; silver; slate; stainless steel; steel; stoneware; suede; teak;
    terracotta; titanium; tweed; velvet; walnut; wicker; wood; wool
""")
HEADS = phrases("""
    accent; arm; back; band; base; basket; battery; belt; blade; body; border; bottom; bowl; box; bracket; brush;
    buckle; button; cable; cap; case; chain; charger; clasp; clip; closure; collar; cord; core; corner; cover; cuff;
    cushion; dial; display; divider; dock; drawer; edge; filter; finish; flap; fold; frame; front; fringe; grip;
    guard; handle; hanger; head; hinge; holder; hood; hook; inlay; insert; interior; jar; joint; knob; label; lamp;
    latch; layer; leg; lens; lid; light; liner; lining; lock; loop; mechanism; motor; mount; neck; nozzle; pad; panel;
    pattern; plate; plug; pocket; port; pouch; pump; rack; rail; rim; ring; sensor; shade; shell; sleeve; slot; sole;
    spout; spring; stand; stem; strap; stripe; surface; switch; tab; tag; tank; texture; timer; tip; top; tray; trim;
    tube; valve; weave; wheel; window; wrap; zip; zipper
""")
HEAD_QUALITIES = phrases("""
    adjustable; anti-slip; bevelled; braided; carved; chrome; clear; coated; coloured; contoured; cool-touch; curved;
    detachable; dimmable; double; embossed; engraved; extra; fine; flat; flexible; folding; frosted; full-length;
    gloss; hand-sewn; hidden; high; hinged; inner; large; leak-proof; locking; long; low; magnetic; matte; mirrored;
    narrow; non-stick; open; oval; padded; patterned; pointed; polished; quick-release; raised; reinforced; removable;
    ribbed; rotating; round; rounded; sealed; second; self-closing; sharp; short; silent; slim; soft; soft-close;
    solid; spare; square; stitched; striped; tapered; textured; thick; tilting; tinted; touch; translucent;
    transparent; twin; two-tone; USB-C; vented; wide; wireless; woven
""")
MASS = phrases("""
    app control; aromatherapy; batteries included; Bluetooth; bold colours; calm; character; charm; clean lines;
    colour; comfort; convenience; craftsmanship; daily comfort; deep bass; deep colours; durability; elegance; energy;
    extra storage; fast charging; fast delivery; fine details; flavour; fragrance; free returns; free shipping;
    freshness; good grip; great value; hydration; LED lighting; low maintenance; low weight; memory; natural light;
    natural scent; neat stitching; noise cancellation; nostalgia; outdoor comfort; pastel tones; plenty of space;
    privacy; protection; quality; quick setup; recycled packaging; relaxation; rich flavour; rounded corners; safety;
    serenity; simplicity; soft curves; soft light; stability; storage; style; sun protection; support; texture;
    vitamin C; vitamin E; voice control; warm light; warmth; wireless charging; zero waste
""")
PREDICATES = phrases("""
    easy to assemble; easy to carry; easy to clean; easy to store; easy to use; fun to use; good for beginners; good
    for the planet; great as a gift; great for kids; great for travel; made by hand; made in Europe; made in Italy;
    made in Japan; made in Portugal; made locally; made to last; made to order; nice to touch; perfect for gifting;
    quick to dry; quick to set up; ready to ship; rich in colour; safe for children; safe for pets; simple to fix;
    soft to the touch; suitable for vegans; tested by experts; built to last; free of plastic; gentle on skin; hard to
    break; kind to skin; light to carry; low in sugar; full of flavour
""")
ACTIVITIES = phrases("""
    adventure; autumn; baking; barbecues; bathing; birthdays; boating; breakfast; brunch; camping; celebrations;
    children; Christmas; city life; climbing; coffee; commuting; cooking; cycling; dancing; daily use; date night;
    dinner parties; drawing; entertaining; everyday use; family; festivals; fishing; fitness; gaming; gardening;
    gifting; gifts; hiking; holidays; home; indoors; journaling; kayaking; kids; knitting; learning; meditation;
    mornings; movie night; music; outdoors; painting; parties; pets; photography; picnics; Pilates; reading; relaxing;
    road trips; running; sailing; school; self-care; skiing; sleep; small spaces; spring; storage; study; summer;
    sunbathing; surfing; swimming; tea; teaching; training; travel; vacation; walking; weddings; weekend; winter;
    work; workouts; writing; yoga
""")
ROOMS = phrases("""
    balcony; bathroom; beach; bedroom; desk; dorm; garage; garden; hallway; home office; hotel; kitchen; living room;
    nursery; office; patio; pool; school; spa; terrace
""")
UNITS = phrases("""
    ml; cm; mm; g; kg; hours; pieces; watts; litres; inches; metres; years; days; colours; sizes; modes; settings;
    pockets; speeds; oz
""")
