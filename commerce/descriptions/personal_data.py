"""What descriptions keep about a person: which texts about products they asked for."""

from commerce.descriptions.models import Allowance, DescriptionDraft, DescriptionJob
from shared.accounts.person_rules import kept

OF_THE_SHOP = "it is about the shop's products, and names them by an id"

RULES = (
    kept(DescriptionDraft, "author", why=OF_THE_SHOP),
    kept(DescriptionDraft, "decided_by", why=OF_THE_SHOP),
    kept(DescriptionJob, "author", why=OF_THE_SHOP),
    kept(Allowance, "user", why="a count of a day"),
)
