"""Models of analytics: the ledger, the rollups aggregated from it, the state of aggregation, and sales reports.

No model has a foreign key: rows follow the shop's tables, also when rows there are deleted. A shop id of 0 means the
whole platform; a customer or product id of 0 means none. Money is in minor units. Tables and columns keep their first
names in the database, so that the previous release can serve beside this one.
"""

from commerce.analytics.models.ledger import LedgerEntry, LedgerSource
from commerce.analytics.models.rollups import FirstOrder, OwnerGroupShop, PeriodRollup, ProductRollup
from commerce.analytics.models.sales_report import SalesReport
from commerce.analytics.models.state import RollupState

__all__ = [
    "FirstOrder",
    "LedgerEntry",
    "LedgerSource",
    "OwnerGroupShop",
    "PeriodRollup",
    "ProductRollup",
    "RollupState",
    "SalesReport",
]
