"""Sentence plans: how a description is put together from a product, its keywords, a tone and a length.

A template is a sentence with slots in braces and alternatives in square brackets, ``[soft|warm]``. Each slot takes a
fact of the product that no earlier sentence took; a template whose facts have run out is passed over.

Slots: ``{Name}`` ``{name}`` the product; ``{It}`` ``{it}`` ``{its}`` ``{This}`` its pronouns; ``{is}`` ``{has}``
``{s}`` ``{ies}`` agreement; ``{a_noun}`` the noun with its article and the adjectives of the opening; ``{noun}`` the
noun; ``{does}`` ``{do}`` verb phrases; ``{part}`` ``{material}`` ``{use}`` ``{place}`` ``{people}`` ``{moment}``
``{care}`` facts; ``{list}`` the keywords of the sentence, ``{two}`` two or more of them.
"""

from inference.builtin.corpus.product_kinds import phrases

TONES = ("plain", "friendly", "formal", "playful", "luxurious")


def lines(text: str) -> tuple[str, ...]:
    """Return the non-empty lines of a text."""
    return tuple(line.strip() for line in text.splitlines() if line.strip())


OPENINGS = {
    "plain": lines("""
        {Name} {is} {a_noun} for {use}.
        {Name} {is} {a_noun} made [of|from] {material}.
        {Name} {is} {a_noun} with {part}.
        {Name} {is} {a_noun} that {does}.
        {Name} {does}.
        {Name} {does} and {does}.
        With {part}, {name} {does}.
        Made [of|from] {material}, {name} {is} {a_noun} for {use}.
        {Name} {is} {a_noun} built for {use} and {use}.
        {This} {is} {name}, {a_noun} made for {people}.
        {Name} {has} {part} and {part}.
        [Simple|Useful] and well made, {name} {is} {a_noun} for {use}.
        Here {is} {name}: {a_noun} with {part}.
        For {use}, {name} {is} {a_noun} that {does}.
        Looking for {a_noun}? {Name} {does}.
    """),
    "friendly": lines("""
        Meet {name}, {a_noun} for {people}.
        Say hello to {name}, {a_noun} that {does}.
        If you like {use}, you will like {name}.
        You will [love|enjoy] how {name} {does}.
        {Name} {is} {a_noun} you will reach for {moment}.
        Make {use} easier with {name}, {a_noun} that {does}.
        Come home to {name}, {a_noun} with {part}.
        Whether it is {use} or {use}, {name} {is} here to help.
        Your new {noun} {is} here: {name} {does}.
        We made {name} for {people}.
        Treat yourself to {name}, {a_noun} with {part}.
        Good news for {people}: {name} {does}.
        Think of {name} as {a_noun} that simply {does}.
    """),
    "formal": lines("""
        We are pleased to present {name}, {a_noun} designed for {use}.
        {Name} {is} {a_noun} intended for {people}.
        {Name} {is} {a_noun} of [dependable|consistent] quality, made [of|from] {material}.
        Designed for {use}, {name} {does}.
        {Name} combine{s} {part} with {part}.
        Developed for {people}, {name} {does}.
        Constructed from {material}, {name} {is} {a_noun} for {use}.
        {Name} represent{s} {a_noun} of considered design.
        With {name}, we offer {a_noun} that {does}.
        {Name} meet{s} the needs of {people}.
        It is our pleasure to introduce {name}, {a_noun} with {part}.
    """),
    "playful": lines("""
        Ready for {use}? So {is} {name}!
        Oh, hello there! {Name} {is} {a_noun} that {does}.
        Psst: {name} {is} here, and {it} {does}.
        Who said {use} had to be boring? Meet {name}!
        Plot twist: {name} {does}!
        Calling all {people}: {name} {has} arrived!
        Make way for {name}, {a_noun} with {part}!
        [Boring days, beware|Move over, Monday]: {name} {does}!
        Three cheers for {name}, {a_noun} that {does}!
        Take one look at {name} and try not to smile.
        Some days need {a_noun}. Luckily, {name} {does}!
        Wave goodbye to dull moments: {name} {is} {a_noun} for {use}!
    """),
    "luxurious": lines("""
        Discover {name}, {a_noun} of quiet elegance.
        {Name} {is} {a_noun} for those who notice details.
        Shaped from {material}, {name} {does}.
        Indulge in {name}, {a_noun} with {part}.
        {Name} bring{s} [a sense of occasion|a touch of refinement] to {use}.
        There is a quiet luxury in {name}, {a_noun} that {does}.
        Created for {people}, {name} {is} {a_noun} to treasure.
        Where craft meets beauty, there {is} {name}.
        Refined in every detail, {name} {is} {a_noun} with {part}.
        Experience {name}: {a_noun} made from {material}.
        {Name} add{s} a little ceremony to {use}.
        Exquisite yet useful, {name} {does}.
    """),
}

MIDDLES = {
    "plain": lines("""
        {It} {does} and {does}.
        {It} {does}.
        {It} {has} {part} and {part}.
        {It} {has} {part}, so {it} {does}.
        Thanks to {part}, {it} {does}.
        {It} {is} made [of|from] {material}.
        The maker chose {material}, and it shows.
        [Use {it}|Keep {it}] {place}.
        {It} work{s} well {place}.
        {It} [suit{s}|serve{s}] {people} as well as {people}.
        To care for {it}, {care}.
        Care is simple: {care}.
        {It} {is} [a good fit|a sound choice] for {use}.
        [Place|Put] {it} {place} and {it} will {do}.
        {Moment}, {it} {does}.
        {It} {is} meant for {use} and {use}.
        Because of {part}, {it} will {do} {moment}.
        A closer look shows {part}.
        {It} will {do} without fuss.
        {Place}, {it} {does}.
    """),
    "friendly": lines("""
        You will notice {part} right away.
        Keep {it} {place} and enjoy {it} {moment}.
        {It} even {does}!
        We love that {it} {does}.
        {It} [feel{s}|look{s}] right at home {place}.
        Looking after {it} is easy: {care}.
        {It} {does}, so you can relax.
        Thanks to {part}, {it} {does}.
        {It} {is} made [of|from] {material}, so you can use {it} {moment}.
        It is the little things, like {part}, that make the difference.
        {People_} will feel understood.
        Enjoy {it} {place} or {place}.
        You get {part} and {part}, all in one [neat|friendly] design.
        {Moment}, {it} {does}.
        {It} also make{s} a lovely present for {people}.
        No need to worry about upkeep: {care}.
    """),
    "formal": lines("""
        {It} {is} equipped with {part} and {part}.
        {It} {is} manufactured from {material}.
        {It} {is} well suited to {use}.
        Owing to {part}, {it} {does}.
        {It} perform{s} reliably {place}.
        For maintenance, {care}.
        We recommend {it} to {people}.
        {It} {does} and {does}.
        Particular attention was given to {part}.
        {It} may be used {place} or {place}.
        The construction includes {part}.
        {It} {is} the result of careful development and {does}.
        {Moment}, {it} {does}.
        {It} satisf{ies} the expectations of {people}.
    """),
    "playful": lines("""
        {It} {does}, no magic wand needed!
        Pop {it} {place} and watch the fun begin.
        Bonus points for {part}!
        {It} {does} like a champion.
        Did we mention {part}? Well, now we have.
        {It} {does}, and {it} {does} too!
        Upkeep? Easy: {care}.
        {People_}, this one is for you!
        {It} {is} made of {material} and good intentions.
        {Moment}, {it} {does} while you take the credit.
        Warning: you may want to keep {it} {place} forever.
        {It} {is} a little hero {moment}.
        Thanks to {part}, {it} {does} with a wink.
    """),
    "luxurious": lines("""
        {It} {is} finished with {part}.
        {Material_} lends {it} a depth that only fine materials have.
        {It} {does} with effortless grace.
        Let {it} take pride of place {place}.
        {Part_} and {part} speak of patient craft.
        {Moment}, {it} {does}.
        {It} {is} worthy of {people}.
        To preserve {its} beauty, {care}.
        {It} bring{s} lasting pleasure {moment}.
        Nothing is left to chance, from {part} to {part}.
        {It} {does} and {does}, beautifully.
        {Place}, {it} become{s} a quiet centrepiece.
        Every touch reveals {part}.
    """),
}

CLOSINGS = {
    "plain": lines("""
        {It} {is} a choice that lasts.
        It is all you need, and nothing more.
        {It} {is} ready when you are.
        A [good|fine] gift for {people}.
        {It} will serve you well {moment}.
        That is all there is to it.
        Good design can be this simple.
        {It} [do{es}|perform{s}] just what a good {noun_singular} should.
        Use {it} {moment}.
        You can rely on {it} {moment}.
    """),
    "friendly": lines("""
        Give {it} a try and see for yourself!
        We think you will be happy with {it}.
        Bring {it} home and make {use} a little nicer.
        {It} might just become your favourite.
        Happy days start with small things like this.
        Go on, you deserve {it}!
        Share {it} with {people} and spread the joy.
        You will wonder how you managed before.
        Enjoy {it} {moment}!
    """),
    "formal": lines("""
        {It} {is} a sound investment for {people}.
        We trust that {it} will meet your requirements.
        {It} offer{s} lasting value.
        We invite you to experience {it} in person.
        The result is a product of enduring quality.
        {It} will remain a faithful companion {moment}.
        Quality of this order speaks for itself.
    """),
    "playful": lines("""
        Go on, take {it} for a spin!
        Fun guaranteed, frowns not included.
        Grab {it} before your neighbour does!
        Your Mondays will never know what hit them.
        What are you waiting for?
        High fives all round!
        Life is short, so have a little fun {moment}!
        Now all you have to do is smile.
    """),
    "luxurious": lines("""
        {It} {is} made to be treasured for a lifetime.
        Allow yourself something exceptional.
        An heirloom in the making.
        True luxury lies in the details.
        A gift that will never be forgotten.
        Beauty of this kind never goes out of style.
        For {people}, nothing less will do.
        {It} {is} an indulgence worth keeping.
    """),
}

# Sentences for keywords, by the form of the keywords in them.
KEYWORD_SENTENCES = {
    "adjective": lines("""
        {It} {is} {list}.
        {It} {is} [both|at once] {two}.
        Expect {it} to be {list}.
        [The design|The look|The feel|The whole thing] is {list}.
        People call {it} {list}.
        {It} [feel{s}|look{s}] {list}.
        {It} manage{s} to be {list} without trying.
        {It} manage{s} to be {two} at the same time.
        Everything about {it} is {list}.
        {It} stay{s} {list} {moment}.
        {It} {is} {list}, and {it} {does}.
        {It} {is} {list} and made [of|from] {material}.
    """),
    "predicate": lines("""
        {It} {is} {list}.
        {It} {is} also {list}.
        Best of all, {it} {is} {list}.
        {It} {is} {list}, which [matters|helps] {moment}.
        Because {it} {is} {list}, {it} {is} a [good|fine] choice for {people}.
    """),
    "noun": lines("""
        {It} come{s} with {list}.
        {It} {has} {list}.
        {It} feature{s} {list}.
        {It} offer{s} {list}.
        You get {list}.
        You will find {list} here.
        Details include {list}.
        Thanks to {list}, {it} {does}.
        With {list}, {it} {does}.
        {It} pair{s} {two_and}.
        {It} bring{s} you {list}.
        {It} stand{s} out with {list}.
        {It} rel{ies} on {list} to {do}.
        Look closely and you will see {list}.
        You can enjoy {list} as well.
        {It} combine{s} {part} with {list}.
        Add {list}, and {it} {is} ready for {use}.
    """),
    "material": lines("""
        {It} {is} made [of|from|with] {list}.
        We chose {list}, and it shows.
        {It} {is} crafted from {list}.
        The [feel|touch] of {list} makes {it} special.
        {It} {is} finished in {list}.
        The maker settled on {list} for good reason.
    """),
    "activity": lines("""
        {It} {is} [ideal|made|perfect|great|ready] for {list}.
        The makers had {list} in mind.
        {It} {is} a natural choice for {list}.
        Use {it} for {list}, {place} or anywhere else.
        {It} [suit{s}|fit{s}] {two} alike.
        Choose {it} for {list}.
        When it comes to {list}, {it} {does}.
    """),
    "room": lines("""
        {It} {is} made for the {list}.
        {It} {is} at home in the {list}.
        It is just the thing for the {list}.
        {It} will bring something new to the {list}.
    """),
    "other": lines("""
        In short: {list}.
        In a few words: {list}.
        Think {list}.
        [At a glance|The highlights|The essentials|What stands out|Worth knowing|Good to know]: {list}.
        {It} bring{s} together {list}.
        [It comes down to|It is all about] {list}.
        Keep these in mind: {list}.
        {Its} strong points are {list}.
    """),
}

STOP_WORDS = frozenset(
    phrases(
        "that; with; this; these; they; them; their; have; from; will; your; when; what; like; just; even; also; more; "
        "there; here; every; does; made; make; makes; well; good; than; into; over; then; very; much; such; only; "
        "some; one; you; its; for; and; the; right; keep; keeps; while; where; need; needs; thanks"
    )
)
