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
} | {word: word for word in ("hundred", "thousand", "million", "billion", "trillion", "lakh", "crore")}  # fmt: skip
GLUED_SCALES: Final = frozenset(("M", "mn", "bn", "tn"))
"""Scales right after a number that is no money: "5k", "2B" and "5T" are as often names."""
ABBREVIATIONS: Final = {
    "mr": "mister", "mrs": "missus", "ms": "miz", "dr": "doctor", "prof": "professor", "st": "saint", "jr": "junior",
    "sr": "senior", "capt": "captain", "col": "colonel", "gen": "general", "sgt": "sergeant", "rev": "reverend",
    "lt": "lieutenant", "gov": "governor", "pres": "president", "vs": "versus", "etc": "et cetera",
    "e.g": "for example", "i.e": "that is", "approx": "approximately", "dept": "department", "est": "established",
    "inc": "incorporated", "ltd": "limited", "corp": "corporation", "co": "company", "fig": "figure", "vol": "volume",
    "sen": "senator", "rd": "road", "hwy": "highway", "apt": "apartment", "tsp": "teaspoons", "tbsp": "tablespoons",
    "ave": "avenue", "blvd": "boulevard", "a.m": "a m", "p.m": "p m", "u.s": "u s", "b.sc": "b s c", "m.sc": "m s c",
    "u.k": "u k", "mt": "mount", "ft": "fort", "min": "minute", "max": "maximum", "ph.d": "p h d",
    "lb": "pounds", "lbs": "pounds", "oz": "ounces", "hr": "hour", "hrs": "hours", "sec": "second", "secs": "seconds",
    "yr": "year", "yrs": "years", "wk": "week", "wks": "weeks", "mo": "month", "mos": "months",
    "in": "in", "sq": "square", "cu": "cubic", "fl": "fluid", "gal": "gallons", "pt": "pint", "qt": "quart",
    "cf": "compare", "ca": "circa", "viz": "namely", "al": "al", "rep": "representative", "bros": "brothers",
    "govt": "government", "assn": "association", "assoc": "association", "univ": "university", "pvt": "private",
    "cpl": "corporal", "adm": "admiral", "hon": "honorable", "pl": "place", "ln": "lane", "ct": "court",
    "sq.ft": "square feet", "temp": "temperature", "avg": "average", "qty": "quantity", "ext": "extension",
    "tel": "telephone", "incl": "including", "excl": "excluding", "misc": "miscellaneous", "intl": "international",
    "natl": "national", "mfg": "manufacturing", "supt": "superintendent", "maj": "major", "cmdr": "commander",
    "ed": "editor", "eds": "editors", "trans": "translated", "repr": "reprinted", "ff": "following",
    "insp": "inspector", "det": "detective", "msgr": "monsignor", "brig": "brigadier", "cdr": "commander",
    "pfc": "private first class", "spc": "specialist", "sra": "señora", "cont": "continued",
    "conf": "conference", "appt": "appointment", "appts": "appointments", "amt": "amount", "mtg": "meeting",
    "mtgs": "meetings", "hwys": "highways", "rms": "rooms", "avail": "available", "equiv": "equivalent",
    "ea": "each", "qtr": "quarter", "rte": "route", "rt": "route", "acct": "account", "attn": "attention",
    "mgr": "manager", "asst": "assistant", "dir": "director",
    "atty": "attorney", "amb": "ambassador", "secy": "secretary", "treas": "treasurer", "messrs": "messieurs",
    "mme": "madame", "mlle": "mademoiselle", "fr": "father", "esq": "esquire", "bldg": "building", "ste": "suite",
    "rm": "room", "pkwy": "parkway", "hts": "heights", "expy": "expressway", "fwy": "freeway", "jct": "junction",
    "twp": "township", "terr": "terrace", "qts": "quarts", "pts": "points", "gals": "gallons", "tsps": "teaspoons",
    "tbsps": "tablespoons", "tbs": "tablespoons", "doz": "dozen", "pkg": "package", "pkgs": "packages",
    "rebs": "rebounds", "asts": "assists", "yds": "yards", "esp": "especially", "orig": "originally",
    "prev": "previously", "ver": "version", "encl": "enclosed", "anon": "anonymous", "vols": "volumes",
    "depts": "departments", "profs": "professors", "sens": "senators", "mi": "miles", "mk": "mark", "eq": "equation",
    "eqs": "equations", "thx": "thanks", "pls": "please", "req": "required", "mins": "minutes",
} | {name: full for name, full in MONTH.items() if len(name) < len(full) and name != "mar"}  # fmt: skip
"""Abbreviations that are read so when a full stop follows."""
BARE: Final = {
    "Mr": "mister", "Mrs": "missus", "Ms": "miz", "Dr": "doctor", "Prof": "professor", "vs": "versus", "Hwy": "highway",
    "Blvd": "boulevard", "Capt": "captain", "Sgt": "sergeant", "Lt": "lieutenant", "Gov": "governor",
    "Sen": "senator", "approx": "approximately", "Rm": "room", "Bldg": "building", "Acct": "account",
    "Attn": "attention", "Asst": "assistant", "Messrs": "messieurs", "Mme": "madame", "Pkwy": "parkway",
    "Fwy": "freeway", "Expy": "expressway",
    "int'l": "international", "Int'l": "International", "nat'l": "national", "Nat'l": "National",
    "gov't": "government", "Gov't": "Government", "govt": "government", "dep't": "department",
    "Dep't": "Department", "cont'd": "continued", "Cont'd": "continued", "Thx": "thanks", "thx": "thanks",
    "Pls": "please",
    "Lvl": "level", "Appt": "appointment", "Amt": "amount", "Qty": "quantity", "Avg": "average", "Ext": "extension",
    "mtg": "meeting", "appt": "appointment",
    "Apt": "apartment", "Rte": "route", "pls": "please", "Dept": "department", "Mk": "mark", "Univ": "university",
}  # fmt: skip
"""Abbreviations that are read so without a full stop too, if they are written like this."""
LEADING: Final = {"St": ("saint", "street"), "Mt": ("mount", "Mt"), "Ft": ("fort", "Ft"), "Ste": ("Ste", "suite")}
"""Abbreviations without a full stop, each with its meaning before a name and elsewhere."""
SURE_DAYS: Final = {
    "Tue": "tuesday", "Tues": "tuesday", "Wed": "wednesday", "Thu": "thursday", "Thur": "thursday",
    "Thurs": "thursday", "Fri": "friday",
}  # fmt: skip
"""Shortened days that are no other words."""
WEEKDAYS: Final = {"Mon": "monday", "Sat": "saturday", "Sun": "sunday"}
"""Shortened days that are words too: read so before a number, a month or a day."""
LETTERED: Final = {
    "app": "appendix", "rev": "revision", "pt": "part", "ex": "exhibit", "bk": "book", "ver": "version",
    "art": "article", "ch": "chapter",
    "sc": "scene",
}  # fmt: skip
"""Abbreviations that are read so before a number or a single capital: "App. B"."""
DATED: Final = {"c": "circa", "b": "born", "d": "died", "fl": "flourished", "r": "reigned"}
"""Letters with a full stop that stand before a year."""
TIMED: Final = {"dep": "departs", "arr": "arrives", "exp": "expires", "eff": "effective"}
"""Abbreviations that are read so before a time or a day of numbers."""
BOOKS: Final = {
    "gen": "Genesis", "ex": "Exodus", "lev": "Leviticus", "num": "Numbers", "deut": "Deuteronomy", "josh": "Joshua",
    "ps": "Psalm", "prov": "Proverbs", "eccl": "Ecclesiastes", "isa": "Isaiah", "jer": "Jeremiah", "dan": "Daniel",
    "matt": "Matthew", "rom": "Romans", "cor": "Corinthians", "gal": "Galatians", "eph": "Ephesians",
    "phil": "Philippians", "col": "Colossians", "tim": "Timothy", "heb": "Hebrews", "jas": "James", "pet": "Peter",
    "rev": "Revelation",
}  # fmt: skip
"""Shortened names of the Bible's books, read so before chapter and verse."""
SCRIPTURE: Final = frozenset(name.lower() for name in BOOKS.values()) | frozenset(
    "psalms mark luke john acts judges ruth samuel kings chronicles job song hosea joel amos jonah micah nahum"
    " thessalonians titus philemon jude surah sura quran".split()
)
"""Words after which "3:16" is chapter and verse."""
STREETS: Final = {
    "Ave": "avenue", "Rd": "road", "Pkwy": "parkway", "Ln": "lane", "Sq": "square", "Ct": "court", "Pl": "place",
    "Cir": "circle", "Trl": "trail", "Ter": "terrace", "Hts": "heights", "Twp": "township",
}  # fmt: skip
"""Abbreviations that are read so without a full stop, after a name or an ordinal."""
ROADS: Final = {"st": "street", "dr": "drive"}
"""What two of them mean where no name follows."""
BEFORE_NAMES: Final = frozenset(
    "mr mrs ms dr prof st capt col gen sgt sen rev rep lt gov pres fig vol mt apt hwy e.g i.e vs approx cf ca viz"
    " al pvt cpl adm hon univ temp avg qty ext tel incl maj cmdr supt sq cu fl bldg ste rm attn fr atty amb messrs mme"
    " mlle ver mk asst eq eqs insp det msgr brig cdr pfc spc sra".split()
)
"""Abbreviations whose full stop never ends a sentence, since a name follows."""
ZONES: Final = frozenset("et est edt ct cst cdt mt mst mdt pt pst pdt gmt utc bst cet cest".split())
DAYS: Final = {
    name: full
    for full in ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    for name in (full, full[:3])
} | {"tues": "tuesday", "thur": "thursday", "thurs": "thursday"}
OPENERS: Final = frozenset(
    "a after all also although an and another as at because before but by during each even every finally first"
    " for from he her here his how however i if in instead it it's its many meanwhile most my next no not now of"
    " on once one our she since so some still such that that's the their then there there's these they this those"
    " though to under until we well what when where while who why with yes yet you your".split()
)
"""Words that sentences begin with far more often than names do."""
NO_NOUNS: Final = OPENERS | frozenset(
    "about above across again ago ahead already always am among amount apart are around aside away back be been being"
    " below beside between beyond but can cheaper could daily did do does down due else ever extra had has have him"
    " into is just last later less long may me might monthly more much must near never off only or other others ours"
    " out over own per please plus quite right shall should sometimes soon than them though through today together"
    " tomorrow tonight too toward towards twice upon us usually versus via was weekly were whether which whose will"
    " within without worth would yearly yesterday tall wide high deep thick apiece each maybe and higher lower left"
    " short cheap straight total flat".split()
)
"""Words before which a measure stands for itself: what follows it is nothing that it measures."""
DETERMINERS: Final = frozenset(
    "the its this that his her their our your my another each every first last new any one no whose".split()
)
"""Words after which a measure is in the singular where a noun follows: "the $5 million deal"."""
LIQUIDS: Final = frozenset("ale beer blood blueberries buttermilk cream milk of stock strawberries water".split())
"""Words before which "pts" are pints; elsewhere they are points."""
CLAUSE_WORDS: Final = frozenset("although because but since though unless until when whereas while".split())
"""Almost always the first of a clause. Not "if", "so", "that", "where", "and": too often the middle of one."""
LEANING: Final = frozenset(
    "a all and any anybody anyone anything as at by cannot each even ever every everybody everyone everything"
    " exactly few for from good great half help if in it's just knew know known knows last least less little long"
    " many mere more most much neither no nobody none nor not nothing of on once one only or other quite rather"
    " remember same say short simply so some such tell than that the then these this those to too up very was were"
    " with worth yet".split()
)
"""Words that belong to what follows, or are one expression with it."""
_NO_ROMAN: Final = frozenset("CC CI CL CV LI LX XL XX XXX CLI CIX CXX LXI MIX".split())
"""Roman numbers that are as often something else: sizes, files, names."""
NUMERALS: Final = {
    f"{hundreds}{tens}{ones}": str(100 * hundred + 10 * ten + one)
    for hundred, hundreds in enumerate(("", "C", "CC", "CCC"))
    for ten, tens in enumerate(("", "X", "XX", "XXX", "XL", "L", "LX", "LXX", "LXXX", "XC"))
    for one, ones in enumerate(("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX"))
    if hundred + ten + one
}
"""All Roman numbers up to 399, and what they count."""
ROMAN: Final = {letters: count for letters, count in NUMERALS.items() if letters not in _NO_ROMAN}
PARTS: Final = frozenset(
    "act amendment appendix art article bk book canto ch mk pt chapter class episode fantasy figure grade level mark"
    " page pages part phase sc scene schedule section sonnet stage step table title type vol volume war".split()
)
RULERS: Final = frozenset(
    "abdullah adrian akihito albert alfonso amenhotep antiochus basil boniface carlos casimir celestine christian"
    " constantine cyrus darius emmanuel eugene felipe ferdinand franz gustaf gustav haakon harald ivan joseph juan"
    " justinian leopold manuel mehmed murad olav otto pedro ptolemy rama ramesses ramses selim sigismund sixtus"
    " ernest hugo robert rudolf suleiman thutmose vladimir umberto urban victor xerxes alexander"
    " benedict catherine charles clement edward elizabeth francis frederick george gregory henry"
    " innocent james john leo louis mary napoleon nicholas paul peter philip pius richard wilhelm william".split()
)
"""Words after which letters are a Roman number: "World War II", "Louis XIV"."""
OPENING: Final = "\"'“‘«([{<*_`~#"
CLOSING: Final = "\"'”’»)]}>*_`~"
MARKS: Final = ".,!?;:…。！？；，、："
"""What may stand before a word, after it, and after it with a pause."""
ARROWS: Final = frozenset(("->", "=>", "-->", "==>", "→", "➜", "➔", "⇒", "➡"))
SIGNS: Final = {
    "&": "and", "&&": "and", "||": "or", "+": "plus", "−": "minus", "×": "times", "÷": "divided by", "=": "equals",
    "==": "equals", "===": "equals", "!=": "is not equal to", "!==": "is not equal to",
    "+/-": "plus or minus", "+-": "plus or minus", "≠": "is not equal to", "<": "less than", ">": "greater than",
    "<=": "less than or equal to", "≤": "less than or equal to", ">=": "greater than or equal to",
    "≥": "greater than or equal to", "~": "about", "≈": "about", "@": "at",
    "%": "percent", "#": "number", "§": "section", "¶": "paragraph", "/": "slash", "°": "degrees", "€": "euros",
    "£": "pounds", "$": "dollars", "¢": "cents", "©": "copyright", "™": "trademark", "®": "registered",
    "±": "plus or minus", "∓": "minus or plus", "√": "square root of", "∛": "cube root of", "∑": "sum",
    "∏": "product", "∞": "infinity", "∫": "integral", "∂": "partial", "∇": "nabla", "∝": "proportional to",
    "∪": "union", "∩": "intersection", "∈": "in", "∉": "not in", "⊂": "subset of", "⊆": "subset of",
    "∅": "empty set", "∀": "for all", "∃": "there exists", "¬": "not", "∧": "and", "∨": "or", "≡": "is equivalent to",
    "≅": "is congruent to", "∠": "angle", "⊥": "perpendicular to", "∴": "therefore", "⇔": "if and only if",
    "‰": "per mille", "⌘": "command", "⌥": "option", "⇧": "shift", "⌃": "control", "⏎": "return", "↵": "return",
    "♭": "flat", "♯": "sharp", "♮": "natural", "⌫": "delete", "⎋": "escape", "⇥": "tab",
}  # fmt: skip
GREEK: Final = dict(
    zip(
        "αβγδεζηθικλμνξοπρσςτυφχψωΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩ",
        (
            "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma sigma tau"
            " upsilon phi chi psi omega alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi"
            " omicron pi rho sigma tau upsilon phi chi psi omega"
        ).split(),
        strict=True,
    )
)
WORDS: Final = {
    "w/o": "without", "w/out": "without", "w/in": "within", "b/t": "between", "w/": "with",
    "b/c": "because", "c/o": "care of", "N/A": "N A", "n/a": "N A", "PhD": "P h D",
    "PhDs": "P h D's", "pH": "p H", "IoT": "I o T", "NaCl": "N a C l", "KCl": "K C l", "HCl": "H C l",
    "NaOH": "N a O H", "TM": "trademark", "WWI": "World War one", "WWII": "World War two", "WW1": "World War one",
    "WW2": "World War two", "TL;DR": "T L D R", "tl;dr": "T L D R", "dy/dx": "d y d x", "w/v": "w v", "v/v": "v v",
    "am/pm": "a m or p m",
    "AM/PM": "A M or P M",
    "y/o": "year old", "M-F": "monday to friday", "M–F": "monday to friday", "Tu/Th": "tuesday thursday",
    "lim": "limit",
}  # fmt: skip
"""Words that no rule reads."""
COMMANDS: Final = {
    "times": "times", "cdot": "times", "div": "divided by", "pm": "plus or minus", "leq": "less than or equal to",
    "le": "less than or equal to",
    "geq": "greater than or equal to", "ge": "greater than or equal to", "neq": "is not equal to",
    "ne": "is not equal to", "infty": "infinity", "to": "to",
    "approx": "about", "sum": "sum", "prod": "product", "int": "integral", "partial": "partial", "in": "in",
    "cup": "union", "cap": "intersection", "forall": "for all", "exists": "there exists", "left": "", "right": "",
    "ldots": "", "cdots": "", "dots": "", "quad": "", "qquad": "", "ast": "times", "rightarrow": "to",
    "circ": "degrees",
    "equiv": "is equivalent to", "propto": "proportional to", "sim": "about", "subset": "subset of",
    "subseteq": "subset of", "notin": "not in", "mid": "given", "langle": "", "rangle": "",
    "big": "", "bigl": "", "bigr": "", "limits": "",
    "sin": "sine", "cos": "cosine", "tan": "tangent", "ln": "l n", "lim": "limit", "emptyset": "empty set",
    "varepsilon": "epsilon", "varphi": "phi", "vartheta": "theta", "hbar": "h bar", "nabla": "nabla",
    "mp": "minus or plus", "oplus": "plus", "land": "and", "lor": "or", "neg": "not", "implies": "implies",
}  # fmt: skip
"""Commands of formulas, after their backslash; others are read by their names."""
DATED_AFTER: Final = frozenset(
    "on by until till from since before after due through dated starting ending beginning effective avail available"
    " opens closes starts ends begins".split()
)
"""Words after which "6/10" is a day."""
COUNTED_OFF: Final = frozenset(
    "step page part slide day round stage chapter episode lesson question module section level batch".split()
)
"""Words after which "1/3" is the first of three."""
COUNTED: Final = frozenset(
    "order tracking phone telephone fax mobile model serial part account invoice reference ref case flight policy item"
    " ticket job registration catalog catalogue batch lot contact customer member card id house".split()
)
"""Words after which "no." is number."""
PACKAGES: Final = frozenset("bag block bottle box can carton container jar loaf package packet stick tin tub".split())
"""Words before which a measure in brackets tells their size: "1 (8 oz) package"."""
LETTERED_DAYS: Final = {
    "Mo": "monday", "M": "monday", "Tu": "tuesday", "We": "wednesday", "W": "wednesday", "Th": "thursday",
    "Fr": "friday", "F": "friday", "Sa": "saturday", "Su": "sunday",
}  # fmt: skip
"""Days by a letter or two, read so where a range of days is written so: "M–Th"."""
SIZES: Final = {"lg": "large", "sm": "small", "med": "medium"}
"""Sizes of eggs and onions, after a number."""
BOUGHT: Final = frozenset(
    "acquisition bailout bill bills bond bonus budget buyout check contract deal donation fee fine fund gift grant"
    " investment lawsuit loan mansion merger note offer package prize project settlement stake ticket upgrade".split()
)
"""Nouns before which a sum is in the singular whatever stands before it: "a five-year, $62M deal"."""
REGIONS: Final = frozenset(
    "Africa America Asia Bank Carolina Coast Dakota Europe Ireland Italy Korea Macedonia Pacific Pole Shore Side Sudan"
    " Virginia Wales Yorkshire Yemen".split()
)
"""Names before which "N." is north."""
DOLLARS: Final = {
    "US": "U S", "CA": "Canadian", "C": "Canadian", "CAN": "Canadian", "A": "Australian", "AU": "Australian",
    "NZ": "New Zealand", "HK": "Hong Kong", "SG": "Singapore", "S": "Singapore", "NT": "Taiwan", "MX": "Mexican",
}  # fmt: skip
"""The countries of dollars, by the letters before the sign: "CA$45"."""
CURRENCY_CODES: Final = {
    "USD": ("U S dollar", "U S dollars"), "EUR": ("euro", "euros"), "GBP": ("pound", "pounds"),
    "JPY": ("yen", "yen"), "CHF": ("Swiss franc", "Swiss francs"), "CAD": ("Canadian dollar", "Canadian dollars"),
    "AUD": ("Australian dollar", "Australian dollars"), "INR": ("rupee", "rupees"), "CNY": ("yuan", "yuan"),
    "SEK": ("Swedish krona", "Swedish kronor"), "NOK": ("Norwegian krone", "Norwegian kroner"),
    "DKK": ("Danish krone", "Danish kroner"), "BTC": ("bitcoin", "bitcoins"), "Rs": ("rupee", "rupees"),
    "Rs.": ("rupee", "rupees"),
}  # fmt: skip
"""The codes of currencies, each with what one and many of it are called."""
STATES: Final = frozenset(
    "AL AK AZ AR CA CO CT DE FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ NM NY NC ND OH OK"
    " OR PA RI SC SD TN TX UT VT VA WA WV WI WY DC PR".split()
)
PAIRED: Final = frozenset(
    "room rooms suite flight highway hwy route interstate apartment apt boeing airbus bus train gate unit rtx gtx"
    " rx xbox port rfc error http building locker channel exit bay door hall ward model peugeot porsche psalm"
    " ieee rm ste bldg form cr sr us rt rte fm".split()
)
"""Words after which numbers of three and four digits are read in pairs."""
SPELLED_OUT: Final = frozenset(
    "cvc cvv id mrn pnr account routing isbn imei code codes zip pin postcode password passcode passwords otp ssn"
    " extension ext serial acct".split()
)
"""Words after which numbers are read digit by digit."""
SEATS: Final = frozenset("route rte highway hwy exit suite seat row gate room flat apartment apt platform unit".split())
"""Words after which a number and a letter name a seat or a place."""
NAMED_BY_NUMBER: Final = frozenset("boeing airbus rtx gtx rx xbox model peugeot porsche".split())
"""Words after which numbers are read in pairs and "737-800" is a name, not a range: "Boeing 737-800"."""
MILLIONS: Final = frozenset(
    "people users customers subscribers viewers followers fans players voters residents patients children adults"
    " students workers employees members visitors tourists passengers downloads views streams copies units shares jobs"
    " homes households americans britons dollars euros pounds steps words lines tokens rows records miles mi likes"
    " comments posts parameters".split()
)
"""Words that are counted after "20m", "100k" and "3B": it is twenty million, not meters."""
TALLIES: Final = frozenset("population pop subscribers followers viewers users downloads streams views".split())
"""Words after which "2.1m" is two point one million."""
CALLED: Final = frozenset("call called calling dial dialed dialing dialled phone phoned rang ring text texted".split())
"""Words after which three digits are the number of a service."""
VERSIONED: Final = frozenset(
    "python java node php ruby ios ipados android macos windows ubuntu debian fedora version versions release"
    " django react kernel linux firmware chrome firefox postgres postgresql mysql cuda gcc llvm kotlin swift"
    " angular kubernetes docker rust go perl scala numpy pytorch tensorflow qt build patch update gpt claude"
    " gemini llama qwen".split()
)
"""Words after which "3.12" is a version, three point twelve."""
