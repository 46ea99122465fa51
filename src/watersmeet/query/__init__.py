"""The query model: what a query means, with no word on how it runs."""

from watersmeet.query.duration import format_duration, parse_duration
from watersmeet.query.expression import ANSWER_TIME, ColumnRef, Expr, column_expr
from watersmeet.query.join_graph import Attribute, AttributeClass, JoinGraph
from watersmeet.query.query import MAX_INPUTS, Aggregate, Input, Output, Pipeline, Query
from watersmeet.query.site import Link, Site
from watersmeet.query.stream import DAY_US, NO_LIMIT, Column, Connector, Sink, Stream
from watersmeet.query.window import (
    BEGINNING,
    NEVER,
    UNBOUNDED,
    WINDOW_KINDS,
    RangeWindow,
    RowsWindow,
    TumbleRowsWindow,
    TumbleWindow,
    UnboundedWindow,
    Window,
    range_us,
    rows,
    tumble_rows,
    tumble_us,
)

__all__ = [
    "ANSWER_TIME",
    "BEGINNING",
    "DAY_US",
    "MAX_INPUTS",
    "NEVER",
    "NO_LIMIT",
    "UNBOUNDED",
    "WINDOW_KINDS",
    "Aggregate",
    "Attribute",
    "AttributeClass",
    "Column",
    "ColumnRef",
    "Connector",
    "Expr",
    "Input",
    "JoinGraph",
    "Link",
    "Output",
    "Pipeline",
    "Query",
    "RangeWindow",
    "RowsWindow",
    "Sink",
    "Site",
    "Stream",
    "TumbleRowsWindow",
    "TumbleWindow",
    "UnboundedWindow",
    "Window",
    "column_expr",
    "format_duration",
    "parse_duration",
    "range_us",
    "rows",
    "tumble_rows",
    "tumble_us",
]
