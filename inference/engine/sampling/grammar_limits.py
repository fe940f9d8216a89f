"""Limits of Lark grammars that llguidance does not have: it ends the process, or takes minutes, before its own hold."""

import re

from inference.engine.errors import InvalidRequest

MAX_RULES = 500  # a chain of 3,000 overflows the stack
MAX_INTERSECTIONS = 4  # of terminals, `/a/ & /b/`: 14 take 32 s, as the states of their parts multiply
# Comments, strings and regular expressions, whose characters define nothing. Those that do not end are cut off at the
# end of their line, and rejected by llguidance: to look for each one's end again would be quadratic.
TEXT = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"?|/(?:\\.|[^/\\\n])+/?', re.DOTALL)
RULE = re.compile(r"^[ \t]*[?!]?[A-Za-z_][^:\n|\"/]*:", re.MULTILINE)


def check_grammar(grammar: str, parameter: str) -> None:
    """Raise InvalidRequest, naming the parameter, for a Lark grammar beyond the limits."""
    definitions = TEXT.sub("", grammar)
    for count, limit, counted in (
        (len(RULE.findall(definitions)), MAX_RULES, "rules"),
        (definitions.count("&"), MAX_INTERSECTIONS, "intersections (`&`)"),
    ):
        if count > limit:
            raise InvalidRequest(
                f"`{parameter}` cannot be used: it has {count} {counted}, and at most {limit} are allowed.",
                parameter=parameter,
            )
