"""The book as a lane of the scalar oracle finds it: what is recorded, less what the lane took itself."""

from tests.oracles.history import History

BID, ASK = 0, 1
Fills = list[tuple[int, int]]  # price (ticks) and lots, in the order in which they are had


class Book:
    """Levels of both sides, and what was taken of them since they last showed another size."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.taken: tuple[dict[int, tuple[int, int]], dict[int, tuple[int, int]]] = ({}, {})
        # of each side: price -> (size shown when last traded with, lots taken of it)

    def shown(self, side: int, row: int) -> list[tuple[int, int]]:
        return self.history.asks[row] if side == ASK else self.history.bids[row]

    def taken_of(self, side: int, price: int, shown: int) -> int:
        seen, taken = self.taken[side].get(price, (0, 0))
        return taken if shown and shown == seen else 0

    def fills(self, side: int, row: int, lots: int) -> Fills:
        """What `lots` would get, level by level."""
        out = []
        for price, shown in self.shown(side, row):
            if not lots:
                break
            here = min(lots, shown - self.taken_of(side, price, shown))
            lots -= here
            if here:
                out.append((price, here))
        return out

    def take(self, side: int, row: int, lots: int) -> Fills:
        """As `fills`, and remember what was taken."""
        fills = self.fills(side, row, lots)
        if fills:
            now = dict(fills)
            levels = [(price, shown) for price, shown in self.shown(side, row) if shown]
            memory = {p: (shown, self.taken_of(side, p, shown) + now.get(p, 0)) for p, shown in levels}
            self.taken[side].clear()
            self.taken[side].update(memory)
        return fills


def lots_of(fills: Fills) -> int:
    return sum(lots for _, lots in fills)


def notional_of(fills: Fills) -> int:
    """Tick lots."""
    return sum(price * lots for price, lots in fills)


def split(fills: Fills, lots: int) -> tuple[Fills, Fills]:
    """The first `lots` of `fills`, and the rest."""
    first, rest = [], []
    for price, here in fills:
        now = min(lots, here)
        lots -= now
        if now:
            first.append((price, now))
        if here > now:
            rest.append((price, here - now))
    return first, rest
