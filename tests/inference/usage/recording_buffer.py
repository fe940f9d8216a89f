"""A ledger buffer for tests of what is counted."""

from inference.usage.ledger import LedgerAmount, LedgerBuffer


class RecordingBuffer(LedgerBuffer):
    """A buffer that records the amounts added to it and writes none."""

    def __init__(self) -> None:
        super().__init__()
        self.added: list[LedgerAmount] = []

    def add(self, key: object, amount: LedgerAmount) -> None:
        self.added.append(amount)
