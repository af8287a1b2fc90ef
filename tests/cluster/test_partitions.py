"""The partitions of hosts are evenly spread and never change."""

from __future__ import annotations

from collections import Counter

import pytest

from headwater.cluster.leases.partitions import PARTITIONS, partition_of, partition_of_domain

GOLDEN = {
    "https://example.org/feed": 181,
    "https://feeds.bbc.co.uk/news/rss": 116,
    "http://127.0.0.1:8000/feeds/1": 140,
    "https://blog.github.io/x": 172,
    "https://münchen.de/feed": 65,
    "https://www.nytimes.com/rss": 29,
}


@pytest.mark.parametrize(("url", "partition"), GOLDEN.items())
def test_a_host_belongs_to_its_partition_for_ever(url: str, partition: int) -> None:
    assert partition_of(url) == partition


def test_all_addresses_of_a_registered_domain_are_in_one_partition() -> None:
    assert partition_of("https://a.example.co.uk/x") == partition_of("http://b.c.EXAMPLE.co.uk:8080/y")


def test_hosts_are_spread_evenly_over_the_partitions() -> None:
    hosts = 51_200
    counts = Counter(partition_of_domain(f"site{number}.example") for number in range(hosts))
    expected = hosts / PARTITIONS
    chi_squared = sum((counts[p] - expected) ** 2 / expected for p in range(PARTITIONS))
    assert chi_squared < 330.5  # the 99.9 % quantile with 255 degrees of freedom
