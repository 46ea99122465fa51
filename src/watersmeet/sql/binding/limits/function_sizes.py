"""What Spark's functions make of the lengths of their arguments.

A function that is not named here makes nothing longer than its arguments together, up to a few characters.
"""

from __future__ import annotations

NUMBER = 40  # characters at most of a number or a date
LITTLE = 2  # characters that any function may add
_MAKING_NUMBERS = """
    abs array_contains array_position array_size arrays_overlap ascii bit_count bit_length
    cardinality ceil ceiling char_length character_length contains count crc32 date_diff datediff
    day dayofmonth dayofweek dayofyear endswith exists find_in_set floor forall hash hour instr
    isnan isnotnull isnull json_array_length jaro_winkler_similarity length len levenshtein like
    ilike locate md5 minute month octet_length position quarter regexp regexp_count regexp_instr
    regexp_like rlike round second sha sha1 sha2 sign size startswith to_date to_timestamp
    unix_timestamp weekday weekofyear xxhash64 year
"""
MAKING_NUMBERS = frozenset(_MAKING_NUMBERS.split())

TIMES = {  # so many characters for one
    **dict.fromkeys(
        ("upper", "lower", "initcap", "ucase", "lcase", "quote", "hex", "base64", "to_base32"), 2
    ),
    **dict.fromkeys(("url_encode", "to_csv"), 3),
    **dict.fromkeys(("encode", "translate", "mask", "decode"), 4),
    **dict.fromkeys(("to_json", "to_xml", "schema_of_json", "schema_of_csv", "schema_of_variant"), 8),
    **dict.fromkeys(("date_format", "from_unixtime", "to_char", "to_varchar", "bin", "conv"), 16),
}
AS_TEXT = 8  # times, of an array or a struct whose elements are a few bytes

LENGTH_AT = {  # the argument that says how long the value is
    **{"repeat": 1, "space": 0, "lpad": 1, "rpad": 1, "array_repeat": 1, "randstr": 0, "array_insert": 1},
}
MULTIPLYING = frozenset(("repeat", "array_repeat"))
FORMATS = {"format_string": 0, "printf": 0, "format_number": 1}  # the argument that is the format

PATTERNS = {  # the arguments that are regular expressions, looked for in the first one
    **dict.fromkeys(
        ("rlike", "regexp", "regexp_like", "regexp_count", "regexp_instr", "regexp_substr"), (1,)
    ),
    **dict.fromkeys(("regexp_extract", "regexp_extract_all", "regexp_replace", "split"), (1,)),
    "str_to_map": (1, 2),
    **dict.fromkeys(("parse_url", "try_parse_url"), (2,)),
    **dict.fromkeys(("like", "ilike"), (1,)),
}
LIKE = frozenset(("like", "ilike"))
REPLACING = {"replace": 2, "regexp_replace": 2, "array_join": 1, "concat_ws": 0}  # what is put in between
FOLDING = frozenset(("aggregate", "reduce"))
CHOOSING = frozenset(("filter", "map_filter", "array_sort"))  # of what they are given
COMPARING = frozenset(("levenshtein", "jaro_winkler_similarity"))  # each character with each
