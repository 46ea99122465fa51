"""Options that Spark would pass over without a word, since they are misspelt names of some that it knows."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from watersmeet.query import Stream
from watersmeet.sql.syntax.declare import STREAM_SETTINGS

_FILES = """
    path maxFilesPerTrigger maxBytesPerTrigger latestFirst maxFileAge fileNameOnly cleanSource
    sourceArchiveDir maxCachedFiles discardCachedInputRatio pathGlobFilter recursiveFileLookup
    modifiedBefore modifiedAfter basePath mergeSchema ignoreCorruptFiles ignoreMissingFiles
"""
_TEXTS = """
    mode columnNameOfCorruptRecord dateFormat timestampFormat timestampNTZFormat timeZone locale
    encoding charset lineSep multiLine samplingRatio compression header sep delimiter quote escape
    comment nullValue nanValue emptyValue inferSchema enforceSchema ignoreLeadingWhiteSpace
    ignoreTrailingWhiteSpace maxColumns maxCharsPerColumn unescapedQuoteHandling
    charToEscapeQuoteEscaping positiveInf negativeInf primitivesAsString prefersDecimal allowComments
    allowUnquotedFieldNames allowSingleQuotes allowNumericLeadingZeros
    allowBackslashEscapingAnyCharacter allowUnquotedControlChars allowNonNumericNumbers
    dropFieldIfAllNull ignoreNullFields singleVariantColumn rowTag
"""
_KAFKA = """
    topic subscribe subscribePattern assign startingOffsets endingOffsets startingTimestamp
    endingTimestamp startingOffsetsByTimestamp endingOffsetsByTimestamp
    startingOffsetsByTimestampStrategy failOnDataLoss maxOffsetsPerTrigger minOffsetsPerTrigger
    maxTriggerDelay minPartitions maxRecordsPerPartition includeHeaders groupIdPrefix
    fetchOffset.numRetries fetchOffset.retryIntervalMs kafkaConsumer.pollTimeoutMs value schema
    bootstrap dead_letters kafka.bootstrap.servers kafka.group.id
"""
_KNOWN = {name.lower(): name for name in f"{_FILES} {_TEXTS} {_KAFKA}".split()}
_LIKE = 0.85  # `latness` is 0.93 like `lateness`; `maxFileAge` is 0.63 like `max_ahead`
_FORMATS = ("parquet", "json", "csv", "orc", "text", "xml", "avro", "kafka")


def describe_misspelt(streams: Iterable[Stream]) -> list[str]:
    """A line for each option that is no option, but much like one."""
    known = {**_KNOWN, **{name: name for name in STREAM_SETTINGS}}
    found = []
    for stream in streams:
        source = stream.source
        if source is None:
            continue
        names = known if source.format.lower() in _FORMATS else {name: name for name in STREAM_SETTINGS}
        lines = dict(source.lines)
        for key, _ in source.options:
            if key.lower() in known or key.lower().startswith("kafka."):
                continue
            like = difflib.get_close_matches(key.lower(), names, n=1, cutoff=_LIKE)
            if like:
                line = f" (line {lines[key]})" if key in lines else ""
                found.append(
                    f"stream {stream.name}{line}: {key} is no option of {source.format}, which passes over "
                    f"it. Did you mean {names[like[0]]}?"
                )
    return found
