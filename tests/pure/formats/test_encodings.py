"""The encoding of documents that do not declare it is guessed."""

from __future__ import annotations

import pytest

from headwater.formats import read
from headwater.formats.values.encodings import guess_encoding

SENTENCES = {
    "euc_jp": "今日は港に大きな船が着きました。明日は雨になるそうです。",
    "shift_jis": "今日は港に大きな船が着きました。明日は雨になるそうです。",
    "euc_kr": "오늘 아침 항구에 큰 배가 들어왔습니다. 내일은 비가 온다고 합니다.",
    "gb2312": "今天早上有一条大船到了港口，明天可能会下雨。",
    "big5": "今天早上有一條大船到了港口，明天可能會下雨。",
    "koi8_r": "Сегодня утром в порт пришёл большой корабль, завтра обещают дождь.",
    "cp1251": "Сегодня утром в порт пришёл большой корабль, завтра обещают дождь.",
    "cp1253": "Σήμερα το πρωί ήρθε στο λιμάνι ένα μεγάλο πλοίο, αύριο θα βρέξει.",
    "cp1255": "הבוקר הגיעה לנמל ספינה גדולה, ומחר צפוי לרדת גשם בכל הארץ.",
    "cp1256": "وصلت هذا الصباح سفينة كبيرة إلى الميناء ومن المتوقع أن تمطر غدا",
    "cp874": "เช้าวันนี้มีเรือใหญ่เข้ามาที่ท่าเรือ และพรุ่งนี้ฝนอาจจะตก",
}
LATIN = {
    "cp1252": [
        "Früh kam ein großes Schiff, die Leute im Hafen hörten es über die Brücke; Äpfel, Öl und Käse für Übersee.",
        "Un grand bateau est arrivé ce matin; il a déjà été déchargé, et l'on espère qu'il repartira après la fête.",
        "Llegó un barco español mañana por la mañana, según la señora Núñez: traía piñas, jamón y café. ¿Quién más?",
        "Et stort skib nåede på søen i går, og både børn og gæster så på.",
    ],
    "cp1250": ["Rano przypłynął duży statek; później będzie padać, mówią żeglarze, więc łódź się chowa."],
    "cp1254": ["Bu sabah büyük bir gemi geldi; yarın yağmur yağacağını söylüyorlar, çocuklar şaşırdı."],
}


@pytest.mark.parametrize("declaration", [b"", b'<?xml version="1.0" encoding="utf-8"?>'])
def test_iso_2022_jp_is_recognised_by_its_escapes(declaration: bytes) -> None:
    sentence = SENTENCES["euc_jp"]
    document = read(declaration + f"<rss><channel><title>{sentence}</title></channel></rss>".encode("iso2022_jp"))
    assert (document.title, document.encoding) == (sentence, "iso2022_jp_ext")


@pytest.mark.parametrize(("codec", "sentence"), SENTENCES.items())
@pytest.mark.parametrize("declaration", [b"", b'<?xml version="1.0" encoding="utf-8"?>'])
def test_bytes_that_are_not_utf_8_are_read_in_the_encoding_of_their_language(
    codec: str, sentence: str, declaration: bytes
) -> None:
    body = declaration + f"<rss><channel><title>{sentence}</title></channel></rss>".encode(codec)
    found = read(body)
    assert found.title == sentence
    assert found.problems


@pytest.mark.parametrize(("codec", "sentences"), LATIN.items())
def test_languages_in_latin_letters_are_not_taken_for_others(codec: str, sentences: list[str]) -> None:
    for sentence in sentences:
        assert guess_encoding(sentence.encode(codec)) is None


@pytest.mark.parametrize("sentence", SENTENCES.values())
@pytest.mark.parametrize("times", [1, 20])
def test_a_few_bad_bytes_do_not_make_utf_8_another_encoding(sentence: str, times: int) -> None:
    body = f"<rss><channel><title>{sentence * times}</title></channel></rss>".encode()
    assert (read(body.replace(b"</title>", b"\xff</title>")).title or "").startswith(sentence)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("caf&#195;&#169;, &#226;&#128;&#156;now&#226;&#128;&#157;", "café, “now”"),
        ("it&#146;s", "it’s"),
        ("it&#226;&#8364;&#8482;s &#226;&#8364;", "it’s â€"),
        ("it&#226;&#128;&#153;s Ünïcødé", "it’s Ünïcødé"),
    ],
)
def test_utf_8_decoded_wrongly_and_written_again_is_repaired(written: str, meant: str) -> None:
    (item,) = read(f"<rss><channel><item><description>{written}</description></item></channel></rss>".encode()).items
    assert item.summary == meant


@pytest.mark.parametrize("charset", ["utf-16", "utf-16-le", "cp037"])
@pytest.mark.parametrize("title", ["plain ", "caf\u00e9 "])
def test_a_charset_that_would_leave_no_markup_is_ignored(charset: str, title: str) -> None:
    body = f"<rss><channel><title>{title}</title></channel></rss>".encode("cp1252")
    body += b" " * (len(body) % 2)
    assert read(body, headers={"Content-Type": f"text/xml; charset={charset}"}).title == title.strip()


@pytest.mark.parametrize(
    ("between", "shown"),
    [
        (b"\xa9 2004", "© 2004"),
        (b"it\x92s \x97 here", "it’s — here"),
        (b"r\xe9sum", "résum"),
        (b"cut off \xe2\x80", "cut off �"),
        (b"cut off \xc3", "cut off �"),
        (b"undefined \x81", "undefined �"),
    ],
)
def test_single_bytes_of_windows_1252_in_a_utf_8_document_are_read(between: bytes, shown: str) -> None:
    body = "<rss><channel><title>Früh: ".encode() + between + b"</title></channel></rss>"
    found = read(body)
    assert (found.title, found.encoding) == (f"Früh: {shown}", "utf-8")
    assert found.problems
