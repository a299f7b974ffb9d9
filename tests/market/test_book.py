"""Walking the book: exact fills and the memory of what was taken."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from trainer.market.book import take, walk

sizes = st.lists(st.integers(0, 9), min_size=1, max_size=6)


def test_walk_pays_each_level_its_price() -> None:
    px, sz = torch.tensor([[101, 102, 104]], dtype=torch.int32), torch.tensor([[2, 0, 3]], dtype=torch.int32)
    filled, notional = walk(px, sz, torch.tensor([4]))
    assert (filled.item(), notional.item()) == (4, 2 * 101 + 2 * 104)


def test_walk_fills_only_what_is_visible() -> None:
    filled, notional = walk(torch.tensor([[-3, -2]]), torch.tensor([[1, 1]]), torch.tensor([5]))
    assert (filled.item(), notional.item()) == (2, -5)


@given(sizes=sizes, lots=st.integers(0, 60))
def test_take_conserves_lots_and_never_skips_a_better_level(sizes: list[int], lots: int) -> None:
    taken = take(torch.tensor([sizes]), torch.tensor([lots]))[0].tolist()
    assert sum(taken) == min(lots, sum(sizes))
    for level, size in enumerate(sizes):
        assert 0 <= taken[level] <= size
        assert taken[level] == size or not any(taken[level + 1 :])


def test_walk_is_exact_beyond_float_precision() -> None:
    lots = 3_000_001
    filled, notional = walk(torch.tensor([[2_000_000_011]]), torch.tensor([[lots]]), torch.tensor([lots]))
    assert filled.item() == lots
    assert notional.item() == 2_000_000_011 * lots
