"""Selection takes the best feeds within the budget and the room of each host."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.schedule.selection import Budget, take_best, take_first
from headwater.schedule.strategy import Table


def one_by_one(value: list[float], host: list[int], room: list[int], most: int) -> list[int]:
    """Take the best first and equal ones in order, each as long as its host has room."""
    left, taken = list(room), []
    for row in sorted(range(len(value)), key=lambda row: -value[row]):
        if len(taken) < most and left[host[row]]:
            left[host[row]] -= 1
            taken.append(row)
    return taken


@given(st.data(), st.integers(0, 600), st.integers(0, 90), st.integers(0, 2**32))
def test_best_with_room_equals_a_brute_force_search(data: st.DataObject, feeds: int, most: int, seed: int) -> None:
    hosts = data.draw(st.integers(1, 5))
    room = data.draw(st.lists(st.integers(0, 80), min_size=hosts, max_size=hosts))
    steps = data.draw(st.sampled_from([1, 4, 10_000]))  # many equal values, some, hardly any
    rng = np.random.default_rng(seed)
    value = rng.integers(0, steps, feeds).astype(float)
    value[rng.random(feeds) < data.draw(st.sampled_from([0.0, 0.5]))] = np.inf  # never refreshed
    host = rng.integers(0, hosts, feeds)
    chosen = take_best(np.arange(feeds), value, Budget(most, host=host, room=np.array(room)))
    assert chosen.rows.tolist() == one_by_one(value.tolist(), host.tolist(), room, most)
    assert chosen.value.tolist() == value[chosen.rows].tolist()
    in_order = take_first(np.arange(feeds), Budget(most, host=host, room=np.array(room)))
    assert in_order.tolist() == one_by_one([0.0] * feeds, host.tolist(), room, most)


def test_without_hosts_ties_go_to_the_lower_row() -> None:
    """The library and the lab pass no hosts, the server does; both must get the same feeds in the same order."""
    rng = np.random.default_rng(19)
    for _ in range(2_000):
        feeds, most = int(rng.integers(1, 60)), int(rng.integers(0, 20))
        rows = np.flatnonzero(rng.random(100) < feeds / 100)
        value = rng.choice([0.0, 1.0, 2.0, np.inf], len(rows))
        chosen = take_best(rows, value, Budget(most))
        expected = sorted(range(len(rows)), key=lambda place: (-value[place], rows[place]))[:most]
        assert chosen.rows.tolist() == rows[expected].tolist()
        assert chosen.value.tolist() == value[expected].tolist()
        one_host = Budget(most, host=np.zeros(100, np.intp), room=np.array([100]))
        assert take_best(rows, value, one_host).rows.tolist() == chosen.rows.tolist()


def test_without_hosts_the_first_rows_are_taken() -> None:
    assert take_first(np.arange(5), Budget(2)).tolist() == [0, 1]


@given(st.lists(st.integers(0, 11), max_size=12))
def test_part_of_the_table_has_the_given_rows_in_any_order(rows: list[int]) -> None:
    table = Table.of(12)
    table.last[:] = np.arange(12.0)
    table.relevant = np.arange(12.0) + 100
    part = table.part(np.array(rows, dtype=np.intp))
    assert part.last.tolist() == rows
    assert part.relevant is not None
    assert part.relevant.tolist() == [row + 100 for row in rows]
