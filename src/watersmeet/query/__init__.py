"""The query model: what a query means, with no word on how it runs."""

from watersmeet.query.declared.site import Link, Site
from watersmeet.query.declared.table import Table
from watersmeet.query.declared.view import Branch, Explode, Step, TableJoin, ViewColumn
from watersmeet.query.duration import format_duration, parse_duration
from watersmeet.query.expression import ANSWER_TIME, ColumnRef, Expr, column_expr
from watersmeet.query.join_graph import Attribute, AttributeClass, JoinGraph
from watersmeet.query.join_tree import Block, Equality, JoinKind, JoinNode, Tree
from watersmeet.query.query import MAX_INPUTS, Aggregate, Input, Output, Pipeline, Query, Reading
from watersmeet.query.stream import DAY_US, NO_LIMIT, Column, Connector, Sink, Stream
from watersmeet.query.window import (
    BEGINNING,
    NEVER,
    UNBOUNDED,
    WINDOW_KINDS,
    PartitionRowsWindow,
    RangeWindow,
    RowsWindow,
    TumbleRowsWindow,
    TumbleWindow,
    UnboundedWindow,
    Window,
    last_of_each,
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
    "Block",
    "Branch",
    "Column",
    "ColumnRef",
    "Connector",
    "Equality",
    "Explode",
    "Expr",
    "Input",
    "JoinGraph",
    "JoinKind",
    "JoinNode",
    "Link",
    "Output",
    "PartitionRowsWindow",
    "Pipeline",
    "Query",
    "RangeWindow",
    "Reading",
    "RowsWindow",
    "Sink",
    "Site",
    "Step",
    "Stream",
    "Table",
    "TableJoin",
    "Tree",
    "TumbleRowsWindow",
    "TumbleWindow",
    "UnboundedWindow",
    "ViewColumn",
    "Window",
    "column_expr",
    "format_duration",
    "last_of_each",
    "parse_duration",
    "range_us",
    "rows",
    "tumble_rows",
    "tumble_us",
]
