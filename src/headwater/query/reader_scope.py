"""Limits the query of a reader to the feeds that this reader may see.

The subscriptions and tags of a reader are hidden tags of the feeds (`reader_tag`): ALL means the feeds that the reader
subscribes to, and TAG means the reader's own tags. The engine needs to know nothing about readers.
"""

from __future__ import annotations

from msgspec.structs import replace

from headwater.language.ast import AllSources, Branch, CreateFeed, SourceGroup, TaggedSources


def reader_tag(reader_id: int, tag: str = "") -> str:
    """Return the hidden tag of the feeds that a reader subscribes to, or has given a tag.

    The separator is a character for private use, which nobody types.
    """
    return f"\ue000{reader_id}\ue000{tag}"


def limit_to_reader(create: CreateFeed, reader_id: int | None) -> CreateFeed:
    """Return the definition as a reader's query is run; that of the server (None) stays as it is.

    It loses its text, from which the engine would read the definition again as it was written.
    """
    if reader_id is None:
        return create
    query = create.query
    branches = tuple(_limit_branch(branch, reader_id) for branch in query.branches)
    joins = tuple(replace(join, branch=_limit_branch(join.branch, reader_id)) for join in query.joins)
    return replace(create, query=replace(query, branches=branches, joins=joins), text="")


def _limit_branch(branch: Branch, reader_id: int) -> Branch:
    match branch.source:
        case AllSources(pos):
            return replace(branch, source=TaggedSources(reader_tag(reader_id), pos))
        case TaggedSources(tag, pos):
            return replace(branch, source=TaggedSources(reader_tag(reader_id, tag), pos))
        case SourceGroup(branches, pos):
            inner = tuple(_limit_branch(each, reader_id) for each in branches)
            return replace(branch, source=SourceGroup(inner, pos))
        case _:
            return branch
