"""Checks names, variables, cycles, quotas, and conditions that no item can meet.

No item meets X AND NOT X, two different titles, or an empty range.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from msgspec.structs import replace

from headwater.language.ast import (
    And,
    ComparisonOperator,
    Condition,
    Contains,
    CreateFeed,
    DateIs,
    DropFeed,
    Equals,
    FeedAddress,
    FeedName,
    Field,
    Instant,
    Matches,
    Not,
    Or,
    Position,
    Query,
    RegisterFeed,
    Scoped,
    SizeIs,
    SourceIs,
    Statement,
    StoryAtom,
    TaggedSources,
)
from headwater.language.diagnostics import Diagnostics, did_you_mean, find_nearest
from headwater.language.normal_form import (
    list_conditions,
    list_join_sources,
    list_read_feeds,
    list_sources,
    walk_branches,
    walk_condition,
)
from headwater.language.parsing.cursor import MAX_NESTING

_LOOP_HINT = "read the sources of the other feed instead, or choose another name"
_STORY_HINT = "no query can read a feed with EACH STORY; read its sources instead"
MAX_ATOMS = 512
MAX_BRANCHES = 10_000
MAX_REGEXES = 20


@dataclass(frozen=True)
class Catalogue:
    """The existing feeds: sources by name with their address, query feeds by name with their query, and all tags.

    Reuse a catalogue for several scripts: its tables are built once.
    """

    sources: Mapping[str, str] = field(default_factory=dict)
    queries: Mapping[str, Query] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()
    titles: tuple[tuple[str, str], ...] = ()  # titles of feeds with their addresses

    @cached_property
    def source_names(self) -> dict[str, str]:
        """The names of the sources by folded name."""
        return {name.casefold(): name for name in self.sources}

    @cached_property
    def names(self) -> dict[str, str]:
        """All names by folded name."""
        return {**self.source_names, **{name.casefold(): name for name in self.queries}}

    @cached_property
    def definitions(self) -> dict[str, Query]:
        return {name.casefold(): query for name, query in self.queries.items()}

    @cached_property
    def addresses_by_title(self) -> dict[str, dict[str, str]]:
        """The addresses, with the title as the feed has it, by folded title."""
        found: dict[str, dict[str, str]] = {}
        for title, url in self.titles:
            found.setdefault(fold_title(title), {})[url] = title
        return found

    @cached_property
    def folded_tags(self) -> frozenset[str]:
        return frozenset(tag.casefold() for tag in self.tags)


def fold_title(title: str) -> str:
    return " ".join(title.casefold().split())


def complete_title(typed: str, titles: Iterable[str], limit: int = 8) -> list[str]:
    """Return the titles that begin with the typed text, then those that contain it.

    >>> complete_title("the g", ["Read the Guardian", "Le Monde", "The Guardian"])
    ['The Guardian', 'Read the Guardian']
    """
    wanted = fold_title(typed)
    found = [(fold_title(title).find(wanted), title) for title in set(titles)]
    return [title for at, title in sorted((at > 0, title) for at, title in found if at >= 0)][:limit]


class _ContainsAll:
    """Contains every name."""

    def __contains__(self, name: object) -> bool:
        return True


EVERY: Container[str] = _ContainsAll()  # for `replacing`: all query feeds


class Checker:
    """Checks a script statement by statement; each statement sees the names created before it.

    A plain CREATE may replace the query feeds in `replacing` (folded names) once. A second CREATE of the same name in
    the script is an error.
    """

    def __init__(self, diagnostics: Diagnostics, catalogue: Catalogue | None, replacing: Container[str] = ()) -> None:
        self._diagnostics = diagnostics
        self._replacing = replacing
        self._created_names: set[str] = set()  # in this script
        self._is_catalogue_complete = catalogue is not None  # without a catalogue, unknown names are not errors
        known = catalogue or Catalogue()
        # names from the script shadow those of the catalogue
        self._sources = ChainMap({}, known.source_names)
        self._names = ChainMap({}, known.names)
        self._queries = ChainMap({}, known.definitions)
        self._tags = set(known.folded_tags)
        self._created_later: dict[str, Position] = {}
        self._titles = known.addresses_by_title
        self.addresses: dict[Position, str] = {}  # of FEED "title", by its position

    def note_created_names(self, statements: list[Statement]) -> None:
        """Note where names are created: using one too early is the likeliest reason for an unknown name."""
        for statement in statements:
            if isinstance(statement, CreateFeed | RegisterFeed) and not getattr(statement, "replace", False):
                self._created_later.setdefault(statement.name.key, statement.name.pos)

    def check_statement(self, statement: Statement, clean: bool) -> None:
        """Check the statement and add its name. Of a statement with syntax errors, only the name is used."""
        match statement:
            case CreateFeed():
                self._check_create(statement, clean)
            case RegisterFeed():
                self._add_name(statement.name, replacing=False, creates=False)
                self._sources[statement.name.key] = statement.name.name
                self._tags.update(tag.casefold() for tag in statement.tags)
            case DropFeed():
                self._check_drop(statement)

    # statements

    def _check_create(self, statement: CreateFeed, clean: bool) -> None:
        key = statement.name.key
        self._add_name(statement.name, statement.replace or (key in self._replacing and key not in self._created_names))
        known = self._diagnostics.error_count
        if clean:
            check_variables(statement.query, self._diagnostics)
            check_quotas(statement.query, self._diagnostics)
            check_stories(statement.query, self._diagnostics)
            if self._diagnostics.error_count == known:
                self._check_references(statement)
                self._warn_if_empty(statement.query)
        # A definition with errors leaves the earlier one in force, so that it cannot close a cycle for others.
        sound = clean and self._diagnostics.error_count == known
        self._queries.setdefault(statement.name.key, Query(()))
        if sound:
            self._queries[statement.name.key] = statement.query

    def _add_name(self, name: FeedName, replacing: bool, creates: bool = True) -> None:
        key = name.key
        if key in self._sources and key in self._names:
            self._diagnostics.add_error(
                name.pos, f"feed {self._names[key]} is a registered source", "choose another name"
            )
        elif key in self._names and not replacing:
            hint = f"CREATE OR REPLACE FEED {self._names[key]} AS … changes it" if creates else "choose another name"
            self._diagnostics.add_error(name.pos, f"feed {self._names[key]} exists already", hint)
        self._created_names.add(key)
        self._names.setdefault(key, name.name)
        self._created_later.pop(key, None)

    def _check_drop(self, statement: DropFeed) -> None:
        key = statement.name.key
        if not self._check_known(statement.name, "`headwater query list` and the page Queries show all query feeds"):
            return
        users = self._list_readers(key)
        if users and not statement.cascade:
            listed = ", ".join(self._names.get(user, user) for user in users)
            hint = f"DROP FEED {statement.name.name} CASCADE drops them too"
            self._diagnostics.add_error(statement.name.pos, f"feed {statement.name.name} is used by {listed}", hint)
        gone = {key, *(users if statement.cascade else ())}
        self._created_names -= gone
        self._names = _remove_names(self._names, gone)
        self._queries = _remove_names(self._queries, gone)
        self._sources = _remove_names(self._sources, gone)

    def _list_readers(self, key: str) -> list[str]:
        """Return the direct and indirect readers of a query feed."""
        readers: dict[str, list[str]] = {}
        for name, query in self._queries.items():
            for read in list_read_feeds(query):
                readers.setdefault(read.key, []).append(name)
        found = {key: None}
        todo = [key]
        while todo:
            new = [name for name in readers.get(todo.pop(), ()) if name not in found]
            found |= dict.fromkeys(new)
            todo += new
        return list(found)[1:]

    # names

    def _check_known(self, name: FeedName, otherwise: str | None = None) -> bool:
        key = name.key
        if key in self._names:
            return True
        if key in self._created_later:
            line, column = self._created_later[key]
            self._diagnostics.add_error(
                name.pos,
                f"unknown feed {name.name}",
                f"it is created later, at {line}:{column}; move that statement up",
            )
            return False
        if self._is_catalogue_complete:
            hint = did_you_mean(
                name.name, self._names.values(), otherwise or 'REGISTER FEED "http://…" AS name makes a source known'
            )
            self._diagnostics.add_error(name.pos, f"unknown feed {name.name}", hint)
            return False
        return True

    def _check_references(self, statement: CreateFeed) -> None:
        key, query, known = statement.name.key, statement.query, self._diagnostics.error_count
        for name in list_read_feeds(query):
            if name.key == key or self._check_known(name):
                path = self._find_read_path(name.key, key)
                if path is not None:
                    shown = " → ".join(self._names.get(step, step) for step in (key, *path))
                    self._diagnostics.add_error(
                        name.pos, f"feed {statement.name.name} would read itself: {shown}", _LOOP_HINT
                    )
                self._check_reads_items(name)
        if query.each_story and (readers := self._list_readers(key)):
            listed = ", ".join(self._names.get(reader, reader) for reader in readers)
            self._diagnostics.add_error(
                statement.name.pos, f"feed {statement.name.name} is read by {listed}", _STORY_HINT
            )
        if self._diagnostics.error_count == known and self._count_layers(query, {}) > MAX_NESTING:
            self._diagnostics.add_error(
                statement.name.pos,
                f"feeds are layered deeper than {MAX_NESTING} levels",
                "read the lower feeds directly",
            )
        for condition in list_conditions(query):
            for part in walk_condition(condition):
                if isinstance(part, SourceIs):
                    self._check_sources(part)
        for branch in walk_branches(query):
            source = branch.source
            if isinstance(source, FeedAddress):
                self._check_title(source)
            if (
                isinstance(source, TaggedSources)
                and self._is_catalogue_complete
                and source.tag.casefold() not in self._tags
            ):
                hint = did_you_mean(source.tag, self._tags, "feeds tagged later will take part")
                self._diagnostics.add_warning(source.pos, f"no feed has the tag “{source.tag}” yet", hint)

    def _check_reads_items(self, name: FeedName) -> None:
        """Check that a query feed that is read publishes items, not stories."""
        read = self._queries.get(name.key)
        if read is not None and read.each_story:
            self._diagnostics.add_error(name.pos, f"feed {name.name} publishes stories, not items", _STORY_HINT)

    def _find_read_path(self, start: str, goal: str) -> list[str] | None:
        """Return the path by which `start` reads `goal`, or None."""
        todo, seen = [[start]], {start}
        while todo:
            path = todo.pop(0)
            if path[-1] == goal:
                return path
            query = self._queries.get(path[-1])
            for name in list_read_feeds(query) if query is not None else ():
                if name.key not in seen or name.key == goal:
                    seen.add(name.key)
                    todo.append([*path, name.key])
        return None

    def _count_layers(self, query: Query, known: dict[str, int]) -> int:
        depths = [0]
        for name in list_read_feeds(query):
            inner = self._queries.get(name.key)
            if inner is not None:
                if name.key not in known:
                    known[name.key] = 0  # ends the recursion if the catalogue has a cycle
                    known[name.key] = 1 + self._count_layers(inner, known)
                depths.append(known[name.key])
        return max(depths)

    def _check_title(self, source: FeedAddress) -> None:
        """Find the address of FEED "title"."""
        if not source.title or not self._is_catalogue_complete:
            return
        found = self._titles.get(fold_title(source.title), {})
        if len(found) == 1:
            (self.addresses[source.pos],) = found
        elif found:
            hint = "write the address: " + " or ".join(f'"{url}"' for url in sorted(found)[:3])
            self._diagnostics.add_error(source.pos, f"{len(found)} feeds have the title “{source.title}”", hint)
        else:
            known = [title for urls in self._titles.values() for title in urls.values()]
            near = find_nearest(source.title, known) or next(iter(complete_title(source.title, known)), None)
            hint = f'did you mean FEED "{near}"?' if near else "the list of feeds shows all titles"
            self._diagnostics.add_error(source.pos, f"no feed has the title “{source.title}”", hint)

    def _check_sources(self, part: SourceIs) -> None:
        for source in part.sources:
            if isinstance(source, FeedAddress):
                self._check_title(source)
            if isinstance(source, FeedName) and self._check_known(source) and source.key in self._queries:
                hint = f"give it a variable where it is read: {source.name} AS $v, then WHERE $v[…]"
                self._diagnostics.add_error(
                    source.pos, f"SOURCE needs a source feed, but {source.name} is a query feed", hint
                )

    def _warn_if_empty(self, query: Query) -> None:
        """Warn about conditions that no item can meet: the feed is valid but stays empty."""
        for source in (
            *list_sources(query),
            *(source for join in query.joins for source in list_join_sources(query, join)),
        ):
            if is_contradiction(source.condition):
                at = query.where.pos if query.where is not None else getattr(source.condition, "pos", query.pos)
                self._diagnostics.add_warning(at, "no item can meet this condition", "the feed will stay empty")


Value = TypeVar("Value")


def _remove_names(names: ChainMap[str, Value], gone: set[str]) -> ChainMap[str, Value]:
    kept = {key: value for key, value in names.items() if key not in gone}
    return ChainMap({}, kept)


def check_variables(query: Query, diagnostics: Diagnostics) -> None:
    """Check that variables are declared once and used only in $v[…] at the top level of WHERE."""
    known: dict[str, Position] = {}
    for branch in walk_branches(query):
        if branch.var is not None:
            if branch.var in known:
                diagnostics.add_error(
                    branch.pos, f"variable ${branch.var} is declared twice", "give each source its own"
                )
            known[branch.var] = branch.pos
        for part in walk_condition(branch.filter) if branch.filter is not None else ():
            if isinstance(part, Scoped):
                diagnostics.add_error(part.pos, f"${part.var}[…] is inside the filter of a source", "move it to WHERE")
    if query.where is None:
        return
    tops = query.where.parts if isinstance(query.where, And) else (query.where,)
    for top in tops:
        inner = _find_scoped(top.part if isinstance(top, Scoped) else top)
        if isinstance(top, Scoped) and inner is not None:
            diagnostics.add_error(inner.pos, f"${inner.var}[…] is inside ${top.var}[…]", "join them with AND")
        elif inner is not None:
            diagnostics.add_error(
                inner.pos,
                f"${inner.var}[…] is under OR or NOT",
                "filters on different sources are joined with AND (each one restricts only its own source);"
                " put the OR inside the brackets",
            )
        if isinstance(top, Scoped) and top.var not in known:
            listed = ", ".join(f"${name}" for name in known)
            note = f"declared variables: {listed}" if known else "no source declares a variable"
            hint = f'declare it after its source: "http://…" AS ${top.var}'
            diagnostics.add_error(top.pos, f"unknown variable ${top.var}", hint, note)


def _find_scoped(condition: Condition) -> Scoped | None:
    return next((part for part in walk_condition(condition) if isinstance(part, Scoped)), None)


def check_stories(query: Query, diagnostics: Diagnostics) -> None:
    """Check that conditions on stories stand in WHERE alone: the filters of sources decide which items count."""
    scoped = [part.part for part in walk_condition(query.where) if isinstance(part, Scoped)] if query.where else []
    for condition in (*scoped, *(branch.filter for branch in walk_branches(query) if branch.filter is not None)):
        for part in walk_condition(condition):
            if isinstance(part, StoryAtom):
                hint = "move it to WHERE; the filter of a source decides which items of a story count"
                diagnostics.add_error(part.pos, "STORY is inside the filter of a source", hint)
    if not query.each_story:
        return
    if query.distinct is not None:
        diagnostics.add_error(query.distinct.pos, "DISTINCT and EACH STORY exclude each other", "leave one out")
    for join in query.joins:
        hint = "join in a feed of its own, and read that feed"
        diagnostics.add_error(join.pos, "JOIN and EACH STORY exclude each other", hint)
    for setting in query.settings:
        for name in ("{content}", "{description}"):
            if name in setting.template:
                hint = "use {title}, {link}, {source}, {story.sources} or {story.items}"
                diagnostics.add_error(setting.pos, f"EACH STORY cannot use {name}: a story has no text", hint)


def check_quotas(query: Query, diagnostics: Diagnostics) -> None:
    regexes = 0
    for condition in list_conditions(query):
        atoms = sum(map(_count_atoms, walk_condition(condition)))
        regexes += sum(isinstance(part, Matches) for part in walk_condition(condition))
        if atoms > MAX_ATOMS:
            hint = "split it over several feeds, which can be the sources of one"
            diagnostics.add_error(
                condition.pos, f"the condition has {atoms:,} parts; at most {MAX_ATOMS} are allowed", hint
            )
    if regexes > MAX_REGEXES:
        hint = "join some with | inside one pattern"
        diagnostics.add_error(
            query.pos, f"the query has {regexes} regular expressions; at most {MAX_REGEXES} are allowed", hint
        )
    count = sum(1 for _ in walk_branches(query))
    if count > MAX_BRANCHES:
        hint = 'give the feeds a tag and read TAG "…"'
        diagnostics.add_error(query.pos, f"the query has {count:,} sources; at most {MAX_BRANCHES:,} are allowed", hint)


def _count_atoms(part: Condition) -> int:
    """Count comparisons; each value of a list counts."""
    if isinstance(part, Contains | Equals):
        return len(part.values)
    if isinstance(part, SourceIs):
        return len(part.sources)
    return 0 if isinstance(part, And | Or | Not | Scoped) else 1


_ONE_VALUE = frozenset({Field.TITLE, Field.CONTENT, Field.DESCRIPTION, Field.LINK})


def is_contradiction(condition: Condition) -> bool:
    """Return whether the form of the condition shows that it is false for every item."""
    match condition:
        case And(parts):
            return any(map(is_contradiction, parts)) or _are_contradictory(parts)
        case Or(parts):
            return all(map(is_contradiction, parts))
        case Not(part):
            return is_tautology(part)
        case Scoped(_, part):
            return is_contradiction(part)
        case SizeIs(cmp, number):
            return number == 0 and cmp is ComparisonOperator.LT
        case _:
            return False


def is_tautology(condition: Condition) -> bool:
    match condition:
        case And(parts):
            return all(map(is_tautology, parts))
        case Or(parts):
            return any(map(is_tautology, parts)) or _are_contradictory([_negate(part) for part in parts])
        case Not(part):
            return is_contradiction(part)
        case SizeIs(cmp, number):
            return number == 0 and cmp is ComparisonOperator.GE
        case _:
            return False


def _negate(condition: Condition) -> Condition:
    return condition.part if isinstance(condition, Not) else Not(condition)


def _split_sign(condition: Condition) -> tuple[bool, Condition]:
    """Return sign and core of a condition: `x != v` and `NOT x = v` are the same."""
    sign = True
    while isinstance(condition, Not):
        sign, condition = not sign, condition.part
    if isinstance(condition, Equals | SourceIs) and condition.negated:
        sign, condition = not sign, replace(condition, negated=False)
    return sign, condition


def _are_contradictory(parts: Iterable[Condition]) -> bool:
    signed = [_split_sign(part) for part in parts]
    seen = set(signed)
    if any((not sign, core) in seen for sign, core in signed):
        return True
    return _require_different_values(signed) or _require_empty_range(signed)


def _require_different_values(signed: list[tuple[bool, Condition]]) -> bool:
    """Return whether a field with a single value would have to equal two values."""
    allowed: dict[Field, set[str]] = {}
    for sign, core in signed:
        if sign and isinstance(core, Equals) and core.field in _ONE_VALUE and not core.all:
            values = {" ".join(value.casefold().split()) for value in core.values}
            allowed[core.field] = allowed.get(core.field, values) & values
    return any(not values for values in allowed.values())


def _require_empty_range(signed: list[tuple[bool, Condition]]) -> bool:
    """Return whether a date or size would have to be above one bound and below a lower one."""
    spans: dict[str, list[tuple[float, bool]]] = {}
    for sign, core in signed:
        if not sign:
            continue
        if isinstance(core, DateIs) and isinstance(core.when, Instant):
            name, bound = str(core.field), core.when.epoch
        elif isinstance(core, SizeIs):
            name, bound = "SIZE", core.number
        else:
            continue
        low, high = spans.setdefault(name, [(float("-inf"), False), (float("inf"), False)])
        if core.cmp in (ComparisonOperator.GT, ComparisonOperator.GE, ComparisonOperator.EQ):
            low = max(low, (bound, core.cmp is ComparisonOperator.GT))
        if core.cmp in (ComparisonOperator.LT, ComparisonOperator.LE, ComparisonOperator.EQ):
            high = min(high, (bound, core.cmp is not ComparisonOperator.LT), key=lambda end: (end[0], end[1]))
        spans[name] = [low, high]
    return any(low[0] > high[0] or (low[0] == high[0] and (low[1] or not high[1])) for low, high in spans.values())
