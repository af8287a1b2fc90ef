"""Lists ten example queries for the editor: title, purpose and text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExampleQuery:
    title: str
    about: str
    text: str


GALLERY = (
    ExampleQuery(
        "Words in any feed",
        "All items of all feeds that contain one of these words.",
        'CREATE FEED Volcanoes AS RETURN ALL WHERE ITEM CONTAINS "volcano" OR "eruption" OR "lava";',
    ),
    ExampleQuery(
        "A folder without some topics",
        "All feeds with a tag, without celebrities and horoscopes.",
        'CREATE FEED QuietNews AS RETURN TAG "news" WHERE NOT ITEM CONTAINS "celebrity" OR "horoscope";',
    ),
    ExampleQuery(
        "Different conditions for different feeds",
        "Each variable restricts only its own source.",
        "CREATE FEED Iceland AS\n"
        'RETURN "https://feeds.example/news.xml" AS $news | "https://feeds.example/pictures.xml" AS $pictures\n'
        'WHERE $news[ITEM CONTAINS "iceland" AND NOT TITLE CONTAINS "football"]\n'
        '  AND $pictures[CATEGORY = "iceland" OR "volcano"];',
    ),
    ExampleQuery(
        "One copy of each story",
        "The first of several similar headlines within a day.",
        'CREATE FEED OneEach AS RETURN TAG "news" DISTINCT ON TITLE AT 0.7 WITHIN LAST 1 DAY;',
    ),
    ExampleQuery(
        "Long reads",
        "Only texts of some length, the longest first.",
        "CREATE FEED LongReads AS RETURN ALL WHERE SIZE > 8000 ORDER BY SIZE DESC KEEP LAST 30 ITEMS;",
    ),
    ExampleQuery(
        "Security alerts by mail",
        "A pattern in the title, sent immediately, with high polling priority.",
        "CREATE FEED Alerts AS\n"
        "RETURN ALL\n"
        r"WHERE TITLE MATCHES /\bCVE-\d{4}-\d+\b/i" + "\n"
        "IMPORTANCE 20\n"
        "TARGET COMPLETENESS >= 0.99 AND DELAY <= 10 MINUTES\n"
        'DELIVER TO EMAIL "me@example.org";',
    ),
    ExampleQuery(
        "A morning digest",
        "One mail a day with the new items; no mail on days without any.",
        "CREATE FEED Morning AS\n"
        'RETURN TAG "science"\n'
        "WHERE PUBLISHED IN LAST 1 DAY\n"
        'EVERY 1 DAY AT "06:30"\n'
        'DELIVER TO EMAIL "me@example.org";',
    ),
    ExampleQuery(
        "Related news",
        "Items of your blogs, with news on the same topic from the last hours attached.",
        "CREATE FEED Echo AS\n"
        'RETURN TAG "blogs" JOIN TAG "news" AS $n WITHIN LAST 6 HOURS ON TITLE SIMILAR TO $n.TITLE AT 0.5\n'
        'SET TITLE = "[{source}] {title}";',
    ),
    ExampleQuery(
        "Exclusive items",
        "Items whose link none of the big feeds had in the last two days.",
        'CREATE FEED Exclusive AS\nRETURN TAG "blogs" ANTI JOIN TAG "news" AS $n WITHIN LAST 2 DAYS ON LINK = $n.LINK;',
    ),
    ExampleQuery(
        "Podcasts in one language",
        "Items with a sound file, in German or French.",
        'CREATE FEED Listen AS RETURN ALL WHERE ENCLOSURE CONTAINS "audio" AND LANGUAGE IN ("de", "fr");',
    ),
)
