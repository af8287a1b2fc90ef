"""Formats a script: keywords in capitals, and one part per line if a statement is too long for one line.

Parsing a formatted script gives the same script, and formatting twice changes nothing. Comments are kept above their
statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal

from headwater.language import ast

LINE_WIDTH = 100


def format_script(script: ast.Script) -> str:
    """Format a script, with a blank line between statements and a semicolon after each."""
    texts = [format_statement(statement) for statement in script.statements]
    loose = [f"-- {comment}".rstrip() + "\n" for comment in script.comments]
    return "\n\n".join(f"{text};" for text in texts) + ("\n" if texts else "") + "".join(loose)


def format_statement(statement: ast.Statement) -> str:
    """Format a statement without its semicolon."""
    comments = "".join(f"-- {comment}".rstrip() + "\n" for comment in statement.comments)
    match statement:
        case ast.CreateFeed():
            head = f"CREATE {'OR REPLACE ' if statement.replace else ''}FEED {statement.name.name} AS"
            return comments + _fit_lines(head, list(_format_query(statement.query)))
        case ast.DropFeed():
            return f"{comments}DROP FEED {statement.name.name}{' CASCADE' if statement.cascade else ''}"
        case ast.RegisterFeed():
            tags = f" TAGS {_format_list(map(quote_text, statement.tags))}" if statement.tags else ""
            return f"{comments}REGISTER FEED {quote_text(statement.address.url)} AS {statement.name.name}{tags}"


def _fit_lines(head: str, parts: list[list[str]]) -> str:
    """Put everything on one line if it fits; otherwise one part per line, and the pieces of a long part below it."""
    lines = [" ".join([head, *(" ".join(pieces) for pieces in parts)])]
    if len(lines[0]) > LINE_WIDTH:
        lines = [head]
        for pieces in parts:
            one = " ".join(pieces)
            lines += [one] if len(one) <= LINE_WIDTH else [pieces[0], *(f"  {piece}" for piece in pieces[1:])]
    return "\n".join(lines)


def _format_query(query: ast.Query) -> Iterator[list[str]]:
    first, *others = map(_format_branch, query.branches)
    yield [f"RETURN {first}", *(f"| {branch}" for branch in others)]
    for join in query.joins:
        yield [_format_join(join)]
    if query.where is not None:
        tops = query.where.parts if isinstance(query.where, ast.And) else (query.where,)
        first, *others = (_format_condition(part, inside=ast.And if len(tops) > 1 else None) for part in tops)
        yield [f"WHERE {first}", *(f"AND {part}" for part in others)]
    yield from _format_clauses(query)


def _format_clauses(query: ast.Query) -> Iterator[list[str]]:
    if query.distinct is not None:
        at = "" if query.distinct.at is None else f" AT {_format_number(query.distinct.at)}"
        within = "" if query.distinct.within is None else f" WITHIN {_format_window(query.distinct.within)}"
        yield [f"DISTINCT ON {query.distinct.field}{at}{within}"]
    if query.each_story:
        yield ["EACH STORY"]
    if query.settings:
        yield [f"SET {', '.join(map(_format_assignment, query.settings))}"]
    if query.order is not None:
        yield [f"ORDER BY {query.order.field} {'DESC' if query.order.descending else 'ASC'}"]
    if query.keep is not None:
        yield [f"KEEP {_format_window(query.keep)}"]
    if query.importance is not None:
        yield [f"IMPORTANCE {_format_number(query.importance)}"]
    if query.target is not None:
        yield [f"TARGET {' AND '.join(_format_goals(query.target))}"]
    if query.every is not None:
        yield [_format_every(query.every)]
    for delivery in query.deliveries:
        address = f" {quote_text(delivery.address)}" if delivery.address is not None else ""
        every = "" if delivery.every is None else f" {_format_every(delivery.every)}"
        yield [f"DELIVER TO {delivery.kind}{address}{every}"]


def _format_every(every: ast.EveryClause) -> str:
    at = f" AT {quote_text(every.at)}" if every.at is not None else ""
    return f"EVERY {', '.join(every.weekdays) or _format_duration(every.span)}{at}"


def _format_goals(target: ast.TargetClause) -> Iterator[str]:
    if target.completeness is not None:
        yield f"COMPLETENESS >= {_format_number(target.completeness)}"
    if target.freshness is not None:
        yield f"FRESHNESS >= {_format_number(target.freshness)}"
    if target.delay is not None:
        yield f"DELAY <= {_format_duration(target.delay)}"


def _format_assignment(setting: ast.Assignment) -> str:
    return f"{setting.field} {'+=' if setting.append else '='} {quote_text(setting.template)}"


def _format_branch(branch: ast.Branch) -> str:
    condition = f"[{_format_condition(branch.filter)}]" if branch.filter is not None else ""
    return f"{format_source(branch.source)}{condition}{f' AS ${branch.var}' if branch.var else ''}"


def format_source(source: ast.Source) -> str:
    """Format a source as in a query."""
    match source:
        case ast.FeedAddress(url, title=title):
            return quote_text(url) if url else f"FEED {quote_text(title)}"
        case ast.FeedName(name):
            return name
        case ast.TaggedSources(tag):
            return f"TAG {quote_text(tag)}"
        case ast.AllSources():
            return "ALL"
        case ast.SourceGroup(branches):
            return f"({' | '.join(map(_format_branch, branches))})"


def _format_join(join: ast.Join) -> str:
    similar = "=" if join.at is None else "SIMILAR TO"
    at = (
        f" AT {_format_number(join.at)}"
        if join.at not in (None, ast.DEFAULT_SIMILARITY) and join.at is not None
        else ""
    )
    on = f"ON {join.field} {similar} ${join.branch.var}.{join.other}{at}"
    return f"{join.kind} {_format_branch(join.branch)} WITHIN {_format_window(join.within)} {on}"


def format_condition(condition: ast.Condition) -> str:
    """Format a condition on one line."""
    return _format_condition(condition)


def _format_condition(condition: ast.Condition, inside: type[ast.And | ast.Or | ast.Not] | None = None) -> str:
    match condition:
        case ast.And(parts):
            text = " AND ".join(_format_condition(part, ast.And) for part in parts)
            return f"({text})" if inside in (ast.And, ast.Not) else text
        case ast.Or(parts):
            text = " OR ".join(_format_condition(part, ast.Or) for part in parts)
            return f"({text})" if inside is not None else text
        case ast.Not(part):
            return f"NOT {_format_condition(part, ast.Not)}"
        case ast.Scoped(var, part):
            return f"${var}[{_format_condition(part)}]"
        case ast.Contains(field, values, require_all, exact):
            return (
                f"{field} CONTAINS {'EXACT ' if exact else ''}{_format_values(values, require_all, condition.listed)}"
            )
        case ast.Near(field, left, distance, right):
            return f"{field} CONTAINS {quote_text(left)} NEAR {distance} {quote_text(right)}"
        case ast.Equals(field, values, require_all, negated):
            if condition.listed and not require_all and not negated:
                return f"{field} IN {_format_list(map(quote_text, values))}"
            return f"{field} {'!=' if negated else '='} {_format_values(values, require_all, listed=False)}"
        case ast.Matches(field, pattern, ignore_case):
            return f"{field} MATCHES {quote_pattern(pattern)}{'i' if ignore_case else ''}"
        case ast.Similar(field, text, at):
            degree = "" if at == ast.DEFAULT_SIMILARITY else f" AT {_format_number(at)}"
            return f"{field} SIMILAR TO {quote_text(text)}{degree}"
        case _:
            return _format_other_condition(condition)


def _format_other_condition(condition: ast.Condition) -> str:
    match condition:
        case ast.DateIs(field, cmp, ast.Instant(text)):
            return f"{field} {cmp} {quote_text(text)}"
        case ast.DateIs(field, cmp, ast.RelativeInstant() as ago):
            before = "" if ago.unit is None else f" - {_format_duration(ast.Duration(ago.count, ago.unit))}"
            return f"{field} {cmp} NOW{before}"
        case ast.DateIn(field, window):
            return f"{field} IN {_format_window(window)}"
        case ast.SizeIs(cmp, number):
            return f"{ast.Field.SIZE} {cmp} {_format_number(number)}"
        case ast.Has(field):
            return f"HAS {field}"
        case ast.Changed(field, cmp, percent):
            return f"CHANGED({field})" + ("" if cmp is None else f" BY {cmp} {_format_number(percent)} %")
        case ast.StoryCount() | ast.FirstOfStory() | ast.StoryGrowing():
            return _format_story(condition)
        case ast.SourceIs(sources, negated):
            if condition.listed or len(sources) > 1:
                return f"{'NOT ' if negated else ''}SOURCE IN {_format_list(map(format_source, sources))}"
            return f"SOURCE {'!=' if negated else '='} {format_source(sources[0])}"
        case _:
            raise TypeError(f"{type(condition).__name__} is not a condition")


def _format_story(condition: ast.StoryAtom) -> str:
    match condition:
        case ast.StoryCount(measure, cmp, number, within):
            span = "" if within is None else f" WITHIN {_format_window(within)}"
            return f"STORY {measure} {cmp} {number}{span}"
        case ast.FirstOfStory():
            return "FIRST OF STORY"
        case ast.StoryGrowing(number, within):
            if condition == ast.StoryGrowing():
                return "STORY GROWING"
            return f"STORY GROWING BY {number} WITHIN {_format_window(within)}"


def _format_values(values: tuple[str, ...], require_all: bool, listed: bool) -> str:
    if listed:
        return f"{'ALL' if require_all else 'ANY'} {_format_list(map(quote_text, values))}"
    return (" AND " if require_all else " OR ").join(map(quote_text, values))


def _format_list(texts: Iterable[str]) -> str:
    return f"({', '.join(texts)})"


def _format_window(window: ast.LastWindow) -> str:
    return (
        f"LAST {window.count} ITEMS"
        if window.unit is None
        else f"LAST {_format_duration(ast.Duration(window.count, window.unit))}"
    )


def _format_duration(span: ast.Duration) -> str:
    return f"{span.count} {span.unit}{'' if span.count == 1 else 'S'}"


def _format_number(value: float) -> str:
    """Write a number in the shortest way that the query language reads.

    >>> _format_number(5.0), _format_number(0.99), _format_number(1e-5)
    ('5', '0.99', '0.00001')
    """
    text = format(Decimal(repr(float(value))), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def quote_text(text: str) -> str:
    r"""Write a text in quotation marks.

    >>> print(quote_text('a "b" \\ c'))
    "a \"b\" \\ c"
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def quote_pattern(pattern: str) -> str:
    """Put a pattern between slashes and escape its own slashes."""
    escaped = re.sub(r"\\.|/", lambda found: found[0] if len(found[0]) > 1 else r"\/", pattern)
    return f"/{escaped}/"
