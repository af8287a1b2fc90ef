"""Which partition a host belongs to: fixed for ever, so that everything about a host is in one place.

The terminal that holds the partition is the only one that talks to its hosts. Changing anything here would let two
terminals of an upgraded and an old machine talk to one host at once; a test keeps it as it is.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b

from headwater.node.roster import registered_domain_of_url

PARTITIONS = 256


@lru_cache(1 << 16)
def partition_of(url: str) -> int:
    """The partition of an address: a hash of the registered domain, mod 256.

    >>> partition_of("https://feeds.example.org/a") == partition_of("http://www.example.org/b")
    True
    """
    return partition_of_domain(registered_domain_of_url(url))


def partition_of_domain(domain: str) -> int:
    digest = blake2b(domain.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % PARTITIONS
