"""Queries to text, in one way: keywords in capitals, one part a line where one line is too short.

`parse` reads back what `format` writes, and formatting twice changes nothing. Comments are kept, above their statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal

from headwater.language import ast

WIDTH = 100


def format_script(script: ast.Script) -> str:
    """The script, a blank line between statements, a semicolon after each."""
    texts = [format_statement(statement) for statement in script.statements]
    loose = [f"-- {comment}".rstrip() + "\n" for comment in script.comments]
    return "\n\n".join(f"{text};" for text in texts) + ("\n" if texts else "") + "".join(loose)


def format_statement(statement: ast.Statement) -> str:
    """The statement without its semicolon."""
    comments = "".join(f"-- {comment}".rstrip() + "\n" for comment in statement.comments)
    match statement:
        case ast.Create():
            head = f"CREATE {'OR REPLACE ' if statement.replace else ''}FEED {statement.name.name} AS"
            return comments + _fit(head, list(_query(statement.query)))
        case ast.Drop():
            return f"{comments}DROP FEED {statement.name.name}{' CASCADE' if statement.cascade else ''}"
        case ast.Register():
            tags = f" TAGS {_list(map(quote, statement.tags))}" if statement.tags else ""
            return f"{comments}REGISTER FEED {quote(statement.address.url)} AS {statement.name.name}{tags}"


def _fit(head: str, parts: list[list[str]]) -> str:
    """Everything on one line if it fits; else each part on its own, and the pieces of a long part below each other."""
    lines = [" ".join([head, *(" ".join(pieces) for pieces in parts)])]
    if len(lines[0]) > WIDTH:
        lines = [head]
        for pieces in parts:
            one = " ".join(pieces)
            lines += [one] if len(one) <= WIDTH else [pieces[0], *(f"  {piece}" for piece in pieces[1:])]
    return "\n".join(lines)


def _query(query: ast.Query) -> Iterator[list[str]]:
    first, *others = map(_branch, query.branches)
    yield [f"RETURN {first}", *(f"| {branch}" for branch in others)]
    for join in query.joins:
        yield [_join(join)]
    if query.where is not None:
        tops = query.where.parts if isinstance(query.where, ast.And) else (query.where,)
        first, *others = (_pred(part, inside=ast.And if len(tops) > 1 else None) for part in tops)
        yield [f"WHERE {first}", *(f"AND {part}" for part in others)]
    yield from _clauses(query)


def _clauses(query: ast.Query) -> Iterator[list[str]]:
    if query.distinct is not None:
        at = "" if query.distinct.at is None else f" AT {_number(query.distinct.at)}"
        within = "" if query.distinct.within is None else f" WITHIN {_window(query.distinct.within)}"
        yield [f"DISTINCT ON {query.distinct.field}{at}{within}"]
    if query.settings:
        yield [f"SET {', '.join(map(_setting, query.settings))}"]
    if query.order is not None:
        yield [f"ORDER BY {query.order.field} {'DESC' if query.order.descending else 'ASC'}"]
    if query.keep is not None:
        yield [f"KEEP {_window(query.keep)}"]
    if query.importance is not None:
        yield [f"IMPORTANCE {_number(query.importance)}"]
    if query.target is not None:
        yield [f"TARGET {' AND '.join(_goals(query.target))}"]
    if query.every is not None:
        at = f" AT {quote(query.every.at)}" if query.every.at is not None else ""
        yield [f"EVERY {_span(query.every.span)}{at}"]
    if query.deliver is not None:
        address = f" {quote(query.deliver.address)}" if query.deliver.address is not None else ""
        yield [f"DELIVER TO {query.deliver.kind}{address}"]


def _goals(target: ast.Target) -> Iterator[str]:
    if target.completeness is not None:
        yield f"COMPLETENESS >= {_number(target.completeness)}"
    if target.freshness is not None:
        yield f"FRESHNESS >= {_number(target.freshness)}"
    if target.delay is not None:
        yield f"DELAY <= {_span(target.delay)}"


def _setting(setting: ast.Setting) -> str:
    return f"{setting.field} {'+=' if setting.append else '='} {quote(setting.template)}"


def _branch(branch: ast.Branch) -> str:
    condition = f"[{_pred(branch.filter)}]" if branch.filter is not None else ""
    return f"{format_source(branch.source)}{condition}{f' AS ${branch.var}' if branch.var else ''}"


def format_source(source: ast.Source) -> str:
    """A source as a query names it."""
    match source:
        case ast.Address(url):
            return quote(url)
        case ast.Name(name):
            return name
        case ast.Tag(tag):
            return f"TAG {quote(tag)}"
        case ast.AllSources():
            return "ALL"
        case ast.Group(branches):
            return f"({' | '.join(map(_branch, branches))})"


def _join(join: ast.Join) -> str:
    similar = "=" if join.at is None else "SIMILAR TO"
    at = f" AT {_number(join.at)}" if join.at not in (None, ast.DEFAULT_SIMILARITY) and join.at is not None else ""
    on = f"ON {join.field} {similar} ${join.branch.var}.{join.other}{at}"
    return f"{join.kind} {_branch(join.branch)} WITHIN {_window(join.within)} {on}"


def format_predicate(pred: ast.Pred) -> str:
    """The condition on one line."""
    return _pred(pred)


def _pred(pred: ast.Pred, inside: type[ast.And | ast.Or | ast.Not] | None = None) -> str:
    match pred:
        case ast.And(parts):
            text = " AND ".join(_pred(part, ast.And) for part in parts)
            return f"({text})" if inside in (ast.And, ast.Not) else text
        case ast.Or(parts):
            text = " OR ".join(_pred(part, ast.Or) for part in parts)
            return f"({text})" if inside is not None else text
        case ast.Not(part):
            return f"NOT {_pred(part, ast.Not)}"
        case ast.Scoped(var, part):
            return f"${var}[{_pred(part)}]"
        case ast.Contains(field, values, everyone, exact):
            return f"{field} CONTAINS {'EXACT ' if exact else ''}{_values(values, everyone, pred.listed)}"
        case ast.Near(field, left, distance, right):
            return f"{field} CONTAINS {quote(left)} NEAR {distance} {quote(right)}"
        case ast.Equals(field, values, everyone, negated):
            if pred.listed and not everyone and not negated:
                return f"{field} IN {_list(map(quote, values))}"
            return f"{field} {'!=' if negated else '='} {_values(values, everyone, listed=False)}"
        case ast.Matches(field, pattern, ignore_case):
            return f"{field} MATCHES {slashed(pattern)}{'i' if ignore_case else ''}"
        case ast.Similar(field, text, at):
            return f"{field} SIMILAR TO {quote(text)}{'' if at == ast.DEFAULT_SIMILARITY else f' AT {_number(at)}'}"
        case _:
            return _rest(pred)


def _rest(pred: ast.Pred) -> str:
    match pred:
        case ast.DateIs(field, cmp, ast.Instant(text)):
            return f"{field} {cmp} {quote(text)}"
        case ast.DateIs(field, cmp, ast.Ago() as ago):
            return f"{field} {cmp} NOW{'' if ago.unit is None else f' - {_span(ast.Span(ago.count, ago.unit))}'}"
        case ast.DateIn(field, window):
            return f"{field} IN {_window(window)}"
        case ast.SizeIs(cmp, number):
            return f"{ast.Field.SIZE} {cmp} {_number(number)}"
        case ast.Has(field):
            return f"HAS {field}"
        case ast.SourceIs(sources, negated):
            if pred.listed or len(sources) > 1:
                return f"{'NOT ' if negated else ''}SOURCE IN {_list(map(format_source, sources))}"
            return f"SOURCE {'!=' if negated else '='} {format_source(sources[0])}"
        case _:
            raise TypeError(f"{type(pred).__name__} is no condition")


def _values(values: tuple[str, ...], everyone: bool, listed: bool) -> str:
    if listed:
        return f"{'ALL' if everyone else 'ANY'} {_list(map(quote, values))}"
    return (" AND " if everyone else " OR ").join(map(quote, values))


def _list(texts: Iterable[str]) -> str:
    return f"({', '.join(texts)})"


def _window(window: ast.Window) -> str:
    return f"LAST {window.count} ITEMS" if window.unit is None else f"LAST {_span(ast.Span(window.count, window.unit))}"


def _span(span: ast.Span) -> str:
    return f"{span.count} {span.unit}{'' if span.count == 1 else 'S'}"


def _number(value: float) -> str:
    """
    >>> _number(5.0), _number(0.99), _number(1e-5)
    ('5', '0.99', '0.00001')
    """
    text = format(Decimal(repr(float(value))), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def quote(text: str) -> str:
    r"""
    >>> print(quote('a "b" \\ c'))
    "a \"b\" \\ c"
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'


def slashed(pattern: str) -> str:
    """The pattern between slashes, its own slashes escaped."""
    escaped = re.sub(r"\\.|/", lambda found: found[0] if len(found[0]) > 1 else r"\/", pattern)
    return f"/{escaped}/"
