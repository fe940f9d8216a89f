"""English words of claims about a product, and of kinds of products, for the rules of descriptions."""


def _phrases(text: str) -> frozenset[str]:
    return frozenset(" ".join(phrase.replace("-", " ").split()) for phrase in text.split(";") if phrase.strip())


CLAIMS = {
    "material": _phrases("""
        acrylic; alpaca; aluminium; aluminum; bamboo; beech; birch; brass; bronze; canvas; carbon fibre; carbon fiber;
        cashmere; cast iron; ceramic; chrome; copper; cork; cotton; crystal; denim; enamel; faux leather; felt;
        flannel; fleece; foam; fur; glass; gold; golden; granite; hemp; iron; jute; latex; leather; linen; mahogany;
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
