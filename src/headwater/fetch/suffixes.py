"""The public suffix list as a table to walk: which part of a host name somebody registered.

The list is that of the package publicsuffixlist, and so are the answers (a test compares them). Its own search tries
every ending of a name against three forms of rule; here each ending that is part of any rule is one entry, so that the
walk from the right stops at the first that is not: two looks for most names. A leader of a million feeds asks for each.
"""

from __future__ import annotations

from functools import lru_cache

from publicsuffixlist import PSLFILE, encode_idn

PART, EXACT, WILDCARD, EXCEPTION = range(4)  # of a longer rule only; a suffix; all below it are; is none after all


@lru_cache(maxsize=1)
def rules() -> dict[str, int]:
    """Endings of names with what the list says of each; of several rules the one that counts first."""
    found: dict[str, int] = {}
    with open(PSLFILE, encoding="utf-8") as lines:
        for line in lines:
            written = line.lower().split(" ")[0].rstrip()
            if not written or written.startswith("//"):
                continue
            kind = EXCEPTION if written[0] == "!" else WILDCARD if written.startswith("*.") else EXACT
            name = written.removeprefix("!").removeprefix("*.")
            for ending in {name, encode_idn(name)}:
                found[ending] = max(found.get(ending, PART), kind)
                while "." in ending:
                    ending = ending.partition(".")[2]
                    found.setdefault(ending, PART)
    return found


def private_suffix(name: str) -> str:
    """The suffix and one label before it; the name itself where it has none or is not well-formed. `name` is in lower
    case, without a dot at its end.

    >>> private_suffix("a.b.example.co.uk"), private_suffix("co.uk"), private_suffix("www.city.kobe.jp")
    ('example.co.uk', 'co.uk', 'city.kobe.jp')
    """
    if ".." in name or name.startswith("."):
        return name
    kind_of, public, cut = rules().get, 1, len(name)
    starts: list[int] = []
    while cut >= 0:
        cut = name.rfind(".", 0, cut)
        starts.append(cut + 1)
        kind = kind_of(name[cut + 1 :])
        if kind is None:
            break
        if kind == EXCEPTION:
            public = len(starts) - 1
        elif kind != PART:  # below the root of a wildcard one more label is public, if there is one
            public = len(starts) + (kind == WILDCARD and cut >= 0)
    while len(starts) <= public and cut >= 0:
        cut = name.rfind(".", 0, cut)
        starts.append(cut + 1)
    return name[starts[public] :] if len(starts) > public else name
