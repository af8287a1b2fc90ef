"""Tables of the words that dates are made of: months, weekdays, halves of the day, time zones.

Names are lower case. Adding a language is adding a row.
"""

from __future__ import annotations

_MONTH_ROWS = {
    "English": "january february march april may june july august september october november december",
    "English, short": "jan feb mar apr may jun jul aug sep oct nov dec",
    "English, other short": "- - - - - - - - sept - - -",
    "German": "januar februar märz april mai juni juli august september oktober november dezember",
    "German, short": "jän feb mär apr mai jun jul aug sep okt nov dez",
    "French": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "French, short": "janv févr mars avr mai juin juil août sept oct nov déc",
    "Spanish": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "Spanish, short": "ene feb mar abr may jun jul ago sep oct nov dic",
    "Italian": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
    "Italian, short": "gen feb mar apr mag giu lug ago set ott nov dic",
    "Portuguese": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    "Portuguese, short": "jan fev mar abr mai jun jul ago set out nov dez",
    "Dutch": "januari februari maart april mei juni juli augustus september oktober november december",
    "Dutch, short": "jan feb mrt apr mei jun jul aug sep okt nov dec",
    "Swedish": "januari februari mars april maj juni juli augusti september oktober november december",
    "Russian": "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
    "Russian, short": "янв фев мар апр май июн июл авг сен окт ноя дек",
    "Polish": "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października listopada grudnia",
    "Polish, short": "sty lut mar kwi maj cze lip sie wrz paź lis gru",
    "Greek": "ιαν φεβ μάώ απρ μάι ιούν ιούλ αύγ σεπ οκτ νοέ δεκ",
    "Greek, unaccented": "- - μαώ - μαϊ ιον ιολ αυγ - - νοε -",
    "Greek, other": "- - μαρ - μαι ιουν ιουλ - - - - -",
    "Hungarian": "január február március április május június július augusztus szeptember október november december",
    "Hungarian, as blogs misspell it": "- februári - - máujus - - - - - - -",
    "Turkish": "ocak şubat mart nisan mayıs haziran temmuz ağustos eylül ekim kasım aralık",
    "Turkish, short": "oca şub mar nis may haz tem ağu eyl eki kas ara",
    "Czech": "ledna února března dubna května června července srpna září října listopadu prosince",
    "Czech, short": "led úno bře dub kvě čvn čvc srp zář říj lis pro",
    "Danish, Norwegian": "januar februar marts april mai juni juli august september oktober november desember",
    "Norwegian, short": "- - - - - - - - - - - des",
    "Finnish": "tammikuuta helmikuuta maaliskuuta huhtikuuta toukokuuta kesäkuuta heinäkuuta elokuuta syyskuuta "
    "lokakuuta marraskuuta joulukuuta",
    "Finnish, short": "tammi helmi maalis huhti touko kesä heinä elo syys loka marras joulu",
    "Romanian": "ianuarie februarie martie aprilie mai iunie iulie august septembrie octombrie noiembrie decembrie",
    "Romanian, short": "ian - - - - iun iul - - - noi -",
    "Ukrainian": "січня лютого березня квітня травня червня липня серпня вересня жовтня листопада грудня",
    "Ukrainian, short": "січ лют бер кві тра чер лип сер вер жов лис гру",
    "Indonesian": "januari februari maret april mei juni juli agustus september oktober november desember",
    "Catalan": "gener febrer març abril maig juny juliol agost setembre octubre novembre desembre",
}
MONTHS: dict[str, int] = {
    name: number for row in _MONTH_ROWS.values() for number, name in enumerate(row.split(), 1) if name != "-"
}

_WEEKDAY_ROWS = {
    "English": "monday tuesday wednesday thursday friday saturday sunday",
    "English, short": "mon tue wed thu fri sat sun tues weds thur thurs",
    "German": "montag dienstag mittwoch donnerstag freitag samstag sonnabend sonntag",
    "German, short": "mo di mi do fr sa so",
    "French": "lundi mardi mercredi jeudi vendredi samedi dimanche",
    "French, short": "lun mer jeu ven sam dim",
    "Spanish": "lunes martes miércoles jueves viernes sábado domingo",
    "Spanish, short": "lun mié mie jue vie sáb sab dom",
    "Italian": "lunedì martedì mercoledì giovedì venerdì domenica",
    "Italian, short": "gio",
    "Portuguese": "segunda terça quarta quinta sexta seg ter qua qui sex",
    "Dutch": "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag ma wo vr za zo",
    "Swedish": "måndag tisdag onsdag torsdag fredag lördag söndag mån tis ons tor fre lör sön",
    "Russian": "пн вт ср чт пт сб вс",
    "Polish": "pon wto śro czw pią sob nie",
    "Japanese": "火 水 木 金 土",
    "Chinese": "周一 周二 周三 周四 周五 周六 周日 星期一 星期二 星期三 星期四 星期五 星期六 星期日 星期天",
    "Greek": "δευ τρι τετ πεμ παρ σαβ κυρ",
    "Russian, long": "понедельник вторник среда четверг пятница суббота воскресенье",
    "Turkish": "pazartesi salı çarşamba perşembe cuma cumartesi pazar pzt sal çar per cum cmt paz",
    "Czech": "pondělí úterý středa čtvrtek pátek sobota neděle po út st čt pá so ne",
    "Danish, Norwegian": "mandag tirsdag onsdag torsdag fredag lørdag søndag man tir lør søn",
    "Finnish": "maanantai tiistai keskiviikko torstai perjantai lauantai sunnuntai ti ke to pe la su",
    "Ukrainian": "понеділок вівторок середа четвер п'ятниця субота неділя нд",
}
WEEKDAYS: frozenset[str] = frozenset(name for row in _WEEKDAY_ROWS.values() for name in row.split())

# Words between the parts of a date that carry no information: `2nd of January`, `2 de enero de 2006`.
FILLERS = frozenset({
    "-", "of", "the", "at", "de", "del", "den", "der", "le", "el", "il", "um", "à", "às", "kl", "klo", "в", "г", "року",
})  # fmt: skip

MORNING = frozenset({"am", "a.m.", "오전", "上午", "午前"})
AFTERNOON = frozenset({"pm", "p.m.", "오후", "下午", "午後"})

# Minutes east of Greenwich. Where a name is used twice, the one of RFC 822 or, failing that, of the larger press.
ZONES: dict[str, int] = {
    "ut": 0, "utc": 0, "gmt": 0, "z": 0, "wet": 0, "uct": 0, "universal": 0, "zulu": 0,
    "est": -300, "edt": -240, "et": -300, "cst": -360, "cdt": -300, "ct": -360,
    "mst": -420, "mdt": -360, "mt": -420, "pst": -480, "pdt": -420, "pt": -480,
    "ast": -240, "adt": -180, "at": -240, "nst": -210, "ndt": -150, "akst": -540, "akdt": -480, "hst": -600,
    "a": -60, "m": -720, "n": 60, "y": 720,  # RFC 822's military zones; RFC 2822 §4.3 says they mean nothing sure
    "west": 60, "bst": 60, "cet": 60, "met": 60, "mez": 60, "cest": 120, "mest": 120, "mesz": 120,
    "eet": 120, "eest": 180, "msk": 180, "msd": 240, "sast": 120, "trt": 180,
    "ist": 330, "pkt": 300, "ict": 420, "wib": 420, "sgt": 480, "hkt": 480, "awst": 480, "myt": 480,
    "jst": 540, "kst": 540, "acst": 570, "acdt": 630, "aest": 600, "aedt": 660, "nzst": 720, "nzdt": 780,
    "brt": -180, "brst": -120, "art": -180, "clt": -240, "clst": -180, "cot": -300, "pet": -300,
}  # fmt: skip

# Zones named for the place, beside those of the tz database.
PLACES: dict[str, str] = {
    "est5edt": "America/New_York",
    "cst6cdt": "America/Chicago",
    "mst7mdt": "America/Denver",
    "pst8pdt": "America/Los_Angeles",
}

LONG_ZONES: dict[str, str] = {
    f"{place} {half}time": f"{letter}{short}"
    for place, letter in (("eastern", "e"), ("central", "c"), ("mountain", "m"), ("pacific", "p"), ("atlantic", "a"))
    for half, short in (("standard ", "st"), ("daylight ", "dt"), ("", "t"))
} | {"greenwich mean time": "gmt", "coordinated universal time": "utc"}
