"""Tables of English, words and signs that are not said as they are written or tell where a text may be parted."""

from typing import Final

MONTHS: Final = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november",
    "december",
)  # fmt: skip
MONTH: Final = {name: name for name in MONTHS} | {
    name[:3]: name for name in MONTHS if name != "may"
} | {"sept": "september"}  # fmt: skip
SCALES: Final = {
    "k": "thousand", "m": "million", "mn": "million", "b": "billion", "bn": "billion", "t": "trillion",
    "tn": "trillion",
} | {word: word for word in ("hundred", "thousand", "million", "billion", "trillion")}  # fmt: skip
GLUED_SCALES: Final = frozenset(("M", "mn", "bn", "tn"))
"""Scales right after a number that is no money: "5k", "2B" and "5T" are as often names."""
UNITS: Final = {
    "km": "kilometer", "m": "meter", "cm": "centimeter", "mm": "millimeter", "mi": "mile", "ft": "foot", "in": "inch",
    "yd": "yard", "kg": "kilogram", "g": "gram", "mg": "milligram", "lb": "pound", "lbs": "pound", "oz": "ounce",
    "l": "liter", "L": "liter", "ml": "milliliter", "h": "hour", "hr": "hour", "hrs": "hour", "min": "minute",
    "mins": "minute", "s": "second", "sec": "second", "secs": "second", "ms": "millisecond", "hz": "hertz",
    "khz": "kilohertz", "v": "volt", "V": "volt", "w": "watt", "W": "watt", "kw": "kilowatt", "kwh": "kilowatt hour",
    "mhz": "megahertz", "ghz": "gigahertz",
    "kb": "kilobyte", "mb": "megabyte", "gb": "gigabyte", "tb": "terabyte", "mph": "mile per hour",
    "kmh": "kilometer per hour", "km/h": "kilometer per hour", "m/s": "meter per second", "°c": "degree celsius",
    "°f": "degree fahrenheit", "°": "degree", "km2": "square kilometer", "m2": "square meter", "m3": "cubic meter",
    "%": "percent", "¢": "cent", "kbps": "kilobit per second", "mbps": "megabit per second",
    "gbps": "gigabit per second", "fps": "frame per second", "rpm": "revolution per minute",
    "tsp": "teaspoon", "tbsp": "tablespoon", "mcg": "microgram", "kcal": "kilocalorie", "db": "decibel",
    "mah": "milliamp hour", "mpg": "mile per gallon",
    "psi": "pound per square inch", "sqft": "square foot", "ft2": "square foot",
    "kb/s": "kilobyte per second", "mb/s": "megabyte per second", "gb/s": "gigabyte per second",
}  # fmt: skip
"""A letter counts as it is written ("5G" are no grams), longer ones in any case."""
SPACED_LETTERS: Final = frozenset("gmLVW")
"""Units of one letter that are one after a space as well: "3 s" and "5 h" are as often something else."""

ABBREVIATIONS: Final = {
    "mr": "mister", "mrs": "missus", "ms": "miz", "dr": "doctor", "prof": "professor", "st": "saint", "jr": "junior",
    "sr": "senior", "capt": "captain", "col": "colonel", "gen": "general", "sgt": "sergeant", "rev": "reverend",
    "lt": "lieutenant", "gov": "governor", "pres": "president", "vs": "versus", "etc": "et cetera",
    "e.g": "for example", "i.e": "that is", "approx": "approximately", "dept": "department", "est": "established",
    "inc": "incorporated", "ltd": "limited", "corp": "corporation", "co": "company", "fig": "figure", "vol": "volume",
    "sen": "senator", "rd": "road", "hwy": "highway", "apt": "apartment", "tsp": "teaspoons", "tbsp": "tablespoons",
    "ave": "avenue", "blvd": "boulevard", "a.m": "a m", "p.m": "p m", "u.s": "u s", "u.k": "u k",
    "mt": "mount", "ft": "fort", "min": "minute", "max": "maximum", "ph.d": "p h d",
    "lb": "pounds", "lbs": "pounds", "oz": "ounces", "hr": "hour", "hrs": "hours", "sec": "second", "mins": "minutes",
} | {name: full for name, full in MONTH.items() if len(name) < len(full) and name != "mar"}  # fmt: skip
"""Read so when a full stop follows."""
ROADS: Final = {"st": "street", "dr": "drive"}
"""What two of them mean where no name follows."""
BEFORE_NAMES: Final = frozenset(
    "mr mrs ms dr prof st capt col gen sgt sen rev lt gov pres fig vol mt apt hwy e.g i.e vs approx".split()
)
"""After these the stop never ends a sentence."""
SPELLED: Final = frozenset(
    "ai api atm ceo cfo cia cpu diy edt eeg ekg est eta eu ev faq fbi gpu hiv ibm icu iou ip ipo iq irs isbn mit mri "
    "nba oecd rna sos suv uae ucla ufo ui uk un url usa usb usd vip ymca".split()
)
"""Read letter by letter although they have a vowel."""
SAID: Final = frozenset("brr dr grr hm hmm jr mm mmm mr mrs ms mt pfft psst pst sh shh sr st tsk zzz".split())
"""Read as words although they have no vowel."""
ZONES: Final = frozenset("et est edt ct cst cdt mt mst mdt pt pst pdt gmt utc bst cet cest".split())
DAYS: Final = {
    name: full
    for full in ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    for name in (full, full[:3])
} | {"tues": "tuesday", "thur": "thursday", "thurs": "thursday"}
OPENERS: Final = frozenset(
    "a after all also although an and another as at because before but by during each even every finally first for from"
    " he her here his how however i if in instead it it's its many meanwhile most my next no not now of on once one our"
    " she since so some still such that that's the their then there there's these they this those though to under until"
    " we well what when where while who why with yes yet you your".split()
)
"""Words that sentences begin with far more often than names do."""
CLAUSE_WORDS: Final = frozenset("although because but since though unless until when whereas while".split())
"""Almost always the first of a clause. Not "if", "so", "that", "where", "and": too often the middle of one."""
LEANING: Final = frozenset(
    "a all and any anybody anyone anything as at by cannot each even ever every everybody everyone everything"
    " exactly few for from good great half help if in it's just knew know known knows last least less little"
    " long many mere more most much neither no nobody none nor not nothing of on once one only or other quite"
    " rather remember same say short simply so some such tell than that the then these this those to too up"
    " very was were with worth yet".split()
)
"""Words that belong to what follows, or are one expression with it."""
ROMAN: Final = {
    f"{tens}{ones}": str(10 * ten + one)
    for ten, tens in enumerate(("", "X", "XX", "XXX"))
    for one, ones in enumerate(("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX"))
    if ten + one
}
PARTS: Final = frozenset(
    "act appendix article book chapter class episode fantasy figure grade level part phase section stage title type"
    " volume war".split()
)
RULERS: Final = frozenset(
    "alexander benedict catherine charles clement edward elizabeth francis frederick george gregory henry innocent"
    " james john leo louis mary napoleon nicholas paul peter philip pius richard wilhelm william".split()
)
"""After these words letters are a Roman number: "World War II", "Louis XIV"."""
OPENING: Final = "\"'“‘«([{<*_`~#"
CLOSING: Final = "\"'”’»)]}>*_`~"
MARKS: Final = ".,!?;:…。！？；，、："
"""What may stand before a word, after it, and after it with a pause."""
ARROWS: Final = frozenset(("->", "=>", "-->", "==>", "→", "➜", "➔", "⇒", "➡"))
SIGNS: Final = {
    "&": "and", "+": "plus", "−": "minus", "×": "times", "÷": "divided by", "=": "equals", "==": "equals",
    "===": "equals", "!=": "is not", "≠": "is not", "<": "less than", ">": "greater than", "<=": "at most",
    "≤": "at most", ">=": "at least", "≥": "at least", "~": "about", "≈": "about", "@": "at", "%": "percent",
    "#": "number",
    "§": "section", "/": "slash", "°": "degrees", "€": "euros", "£": "pounds", "$": "dollars", "¢": "cents",
    "©": "copyright", "™": "trademark",
}  # fmt: skip
