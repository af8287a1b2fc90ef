"""What grammar cannot see: variables and where they may stand, names, cycles, quotas, conditions nobody can meet."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from headwater.language.ast import (
    And,
    Contains,
    Create,
    Drop,
    Equals,
    Matches,
    Name,
    Not,
    Or,
    Position,
    Pred,
    Query,
    Register,
    Scoped,
    SourceIs,
    Statement,
    Tag,
)
from headwater.language.cursor import NESTING
from headwater.language.logic import never
from headwater.language.messages import Report, did_you_mean
from headwater.language.normal import branches, join_leaves, leaves, predicates, reads, walk

ATOMS = 512
BRANCHES = 10_000
REGEXES = 20


@dataclass(frozen=True)
class Catalogue:
    """The feeds that exist: sources by name with their address, query feeds by name with their query, and all tags.

    Using the same catalogue for many scripts costs its size once.
    """

    sources: Mapping[str, str] = field(default_factory=dict)
    queries: Mapping[str, Query] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()

    @cached_property
    def source_names(self) -> dict[str, str]:
        """The names of the sources by their folded form."""
        return {name.casefold(): name for name in self.sources}

    @cached_property
    def names(self) -> dict[str, str]:
        """All names by their folded form."""
        return {**self.source_names, **{name.casefold(): name for name in self.queries}}

    @cached_property
    def definitions(self) -> dict[str, Query]:
        return {name.casefold(): query for name, query in self.queries.items()}

    @cached_property
    def folded_tags(self) -> frozenset[str]:
        return frozenset(tag.casefold() for tag in self.tags)


class _Every:
    """Has everything in it."""

    def __contains__(self, name: object) -> bool:
        return True


EVERY: Container[str] = _Every()  # for `replacing`: whatever query feed there is


class Checker:
    """Follows a script statement by statement, so that each sees the names made before it.

    Query feeds of `replacing`, by folded name, are replaced by a plain CREATE, once: a second one in the same script is
    a mistake all the same.
    """

    def __init__(self, report: Report, catalogue: Catalogue | None, replacing: Container[str] = ()) -> None:
        self._report = report
        self._replacing = replacing
        self._made: set[str] = set()  # by this script
        self._complete = catalogue is not None  # whether a name that we do not know is unknown
        known = catalogue or Catalogue()
        # what the script makes, in front of what there is
        self._sources = ChainMap({}, known.source_names)
        self._names = ChainMap({}, known.names)
        self._queries = ChainMap({}, known.definitions)
        self._tags = set(known.folded_tags)
        self._later: dict[str, Position] = {}

    def foresee(self, statements: list[Statement]) -> None:
        """Remember what is created where: using it before is the likeliest reason for an unknown name."""
        for statement in statements:
            if isinstance(statement, Create | Register) and not getattr(statement, "replace", False):
                self._later.setdefault(statement.name.key, statement.name.pos)

    def check(self, statement: Statement, clean: bool) -> None:
        """Check the statement and take its name in; of one that is not clean only the name is of use."""
        match statement:
            case Create():
                self._create(statement, clean)
            case Register():
                self._new(statement.name, replacing=False)
                self._sources[statement.name.key] = statement.name.name
                self._tags.update(tag.casefold() for tag in statement.tags)
            case Drop():
                self._drop(statement)

    # statements

    def _create(self, statement: Create, clean: bool) -> None:
        key = statement.name.key
        self._new(statement.name, statement.replace or (key in self._replacing and key not in self._made))
        known = self._report.count
        if clean:
            variables(statement.query, self._report)
            quotas(statement.query, self._report)
            if self._report.count == known:
                self._references(statement)
                self._foretell(statement.query)
        # A definition with mistakes leaves the one before in force, or none: it must not close a cycle for others.
        sound = clean and self._report.count == known
        self._queries.setdefault(statement.name.key, Query(()))
        if sound:
            self._queries[statement.name.key] = statement.query

    def _new(self, name: Name, replacing: bool) -> None:
        key = name.key
        if key in self._sources and key in self._names:
            self._report.error(name.pos, f"feed {self._names[key]} is a registered source", "choose another name")
        elif key in self._names and not replacing:
            hint = f"CREATE OR REPLACE FEED {self._names[key]} AS … changes it"
            self._report.error(name.pos, f"feed {self._names[key]} exists already", hint)
        self._made.add(key)
        self._names.setdefault(key, name.name)
        self._later.pop(key, None)

    def _drop(self, statement: Drop) -> None:
        key = statement.name.key
        if not self._known(statement.name):
            return
        users = self._users(key)
        if users and not statement.cascade:
            listed = ", ".join(self._names.get(user, user) for user in users)
            hint = f"DROP FEED {statement.name.name} CASCADE drops them too"
            self._report.error(statement.name.pos, f"feed {statement.name.name} is used by {listed}", hint)
        gone = {key, *(users if statement.cascade else ())}
        self._made -= gone
        self._names = _without(self._names, gone)
        self._queries = _without(self._queries, gone)
        self._sources = _without(self._sources, gone)

    def _users(self, key: str) -> list[str]:
        """Query feeds that read this one, directly or through others."""
        readers: dict[str, list[str]] = {}
        for name, query in self._queries.items():
            for read in reads(query):
                readers.setdefault(read.key, []).append(name)
        found = {key: None}
        todo = [key]
        while todo:
            new = [name for name in readers.get(todo.pop(), ()) if name not in found]
            found |= dict.fromkeys(new)
            todo += new
        return list(found)[1:]

    # names

    def _known(self, name: Name) -> bool:
        key = name.key
        if key in self._names:
            return True
        if key in self._later:
            line, column = self._later[key]
            self._report.error(
                name.pos, f"unknown feed {name.name}", f"it is made later, at {line}:{column}; move it up"
            )
            return False
        if self._complete:
            hint = did_you_mean(
                name.name, self._names.values(), 'REGISTER FEED "http://…" AS name makes a source known'
            )
            self._report.error(name.pos, f"unknown feed {name.name}", hint)
            return False
        return True

    def _references(self, statement: Create) -> None:
        key, query, known = statement.name.key, statement.query, self._report.count
        for name in reads(query):
            if name.key == key or self._known(name):
                path = self._path(name.key, key)
                if path is not None:
                    shown = " → ".join(self._names.get(step, step) for step in (key, *path))
                    self._report.error(name.pos, f"feed {statement.name.name} would read itself: {shown}")
        if self._report.count == known and self._layers(query, {}) > NESTING:
            self._report.error(
                statement.name.pos, f"feeds are layered deeper than {NESTING} levels", "read the lower feeds directly"
            )
        for pred in predicates(query):
            for part in walk(pred):
                if isinstance(part, SourceIs):
                    self._check_sources(part)
        for branch in branches(query):
            source = branch.source
            if isinstance(source, Tag) and self._complete and source.tag.casefold() not in self._tags:
                hint = did_you_mean(source.tag, self._tags, "feeds that get it later take part from then on")
                self._report.warn(source.pos, f"no feed has the tag “{source.tag}” yet", hint)

    def _path(self, start: str, goal: str) -> list[str] | None:
        """How `start` reads `goal`, from the first to the second; None if it does not."""
        todo, seen = [[start]], {start}
        while todo:
            path = todo.pop(0)
            if path[-1] == goal:
                return path
            query = self._queries.get(path[-1])
            for name in reads(query) if query is not None else ():
                if name.key not in seen or name.key == goal:
                    seen.add(name.key)
                    todo.append([*path, name.key])
        return None

    def _layers(self, query: Query, known: dict[str, int]) -> int:
        depths = [0]
        for name in reads(query):
            inner = self._queries.get(name.key)
            if inner is not None:
                if name.key not in known:
                    known[name.key] = 0  # a cycle in the catalogue would not end
                    known[name.key] = 1 + self._layers(inner, known)
                depths.append(known[name.key])
        return max(depths)

    def _check_sources(self, part: SourceIs) -> None:
        for source in part.sources:
            if isinstance(source, Name) and self._known(source) and source.key in self._queries:
                hint = f"give it a variable where it is read: {source.name} AS $v, then WHERE $v[…]"
                self._report.error(source.pos, f"SOURCE is a source feed, and {source.name} is a query feed", hint)

    def _foretell(self, query: Query) -> None:
        """Warn where no item can ever come out; an empty feed is valid, but nobody wants one."""
        for leaf in (*leaves(query), *(leaf for join in query.joins for leaf in join_leaves(query, join))):
            if never(leaf.condition):
                at = query.where.pos if query.where is not None else getattr(leaf.condition, "pos", query.pos)
                self._report.warn(at, "no item can meet this condition", "the feed will stay empty there")


Value = TypeVar("Value")


def _without(names: ChainMap[str, Value], gone: set[str]) -> ChainMap[str, Value]:
    kept = {key: value for key, value in names.items() if key not in gone}
    return ChainMap({}, kept)


def variables(query: Query, report: Report) -> None:
    """Each variable declared once; each used one declared; $v[…] only as a top-level part of WHERE."""
    known: dict[str, Position] = {}
    for branch in branches(query):
        if branch.var is not None:
            if branch.var in known:
                report.error(branch.pos, f"variable ${branch.var} is declared twice", "give each source its own")
            known[branch.var] = branch.pos
        for part in walk(branch.filter) if branch.filter is not None else ():
            if isinstance(part, Scoped):
                report.error(part.pos, f"${part.var}[…] stands inside the filter of a source", "it belongs into WHERE")
    if query.where is None:
        return
    tops = query.where.parts if isinstance(query.where, And) else (query.where,)
    for top in tops:
        inner = _buried(top.part if isinstance(top, Scoped) else top)
        if isinstance(top, Scoped) and inner is not None:
            report.error(
                inner.pos, f"${inner.var}[…] stands inside ${top.var}[…]", "put them side by side, joined with AND"
            )
        elif inner is not None:
            report.error(
                inner.pos,
                f"${inner.var}[…] is under OR or NOT",
                "filters on different sources are joined with AND (each one restricts only its own source);"
                " put the OR inside the brackets",
            )
        if isinstance(top, Scoped) and top.var not in known:
            listed = ", ".join(f"${name}" for name in known)
            note = f"known here: {listed}" if known else "no source has a variable"
            hint = f'declare it after its source: "http://…" AS ${top.var}'
            report.error(top.pos, f"unknown variable ${top.var}", hint, note)


def _buried(pred: Pred) -> Scoped | None:
    return next((part for part in walk(pred) if isinstance(part, Scoped)), None)


def quotas(query: Query, report: Report) -> None:
    regexes = 0
    for pred in predicates(query):
        atoms = sum(map(_atoms, walk(pred)))
        regexes += sum(isinstance(part, Matches) for part in walk(pred))
        if atoms > ATOMS:
            hint = "split it over several feeds, which can be the sources of one"
            report.error(pred.pos, f"the condition has {atoms:,} parts; at most {ATOMS} are allowed", hint)
    if regexes > REGEXES:
        hint = "join some with | inside one pattern"
        report.error(query.pos, f"the query has {regexes} regular expressions; at most {REGEXES} are allowed", hint)
    count = sum(1 for _ in branches(query))
    if count > BRANCHES:
        hint = 'give the feeds a tag and read TAG "…"'
        report.error(query.pos, f"the query has {count:,} sources; at most {BRANCHES:,} are allowed", hint)


def _atoms(part: Pred) -> int:
    """Every value of a list is compared on its own, so it counts on its own."""
    if isinstance(part, Contains | Equals):
        return len(part.values)
    if isinstance(part, SourceIs):
        return len(part.sources)
    return 0 if isinstance(part, And | Or | Not | Scoped) else 1
