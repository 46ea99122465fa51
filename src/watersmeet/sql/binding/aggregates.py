"""Which functions fold many answers into one."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

# fmt: off
AGGREGATES = frozenset((
    "any", "any_value", "approx_count_distinct", "approx_percentile", "approx_top_k", "array_agg",
    "avg", "bit_and", "bit_or", "bit_xor", "bitmap_construct_agg", "bitmap_or_agg", "bool_and",
    "bool_or", "collect_list", "collect_set", "corr", "count", "count_if", "count_min_sketch",
    "covar_pop", "covar_samp", "every", "first", "first_value", "grouping", "grouping_id",
    "histogram_numeric", "hll_sketch_agg", "hll_union_agg", "kurtosis", "last", "last_value", "listagg",
    "max", "max_by", "mean", "median", "min", "min_by", "mode", "percentile", "percentile_approx",
    "percentile_cont", "percentile_disc", "regr_avgx", "regr_avgy", "regr_count", "regr_intercept",
    "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy", "schema_of_json_agg",
    "schema_of_variant_agg", "skewness", "some", "std", "stddev", "stddev_pop", "stddev_samp",
    "string_agg", "sum", "try_avg", "try_sum", "var_pop", "var_samp", "variance",
))
# fmt: on

_SUFFIXES = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)  # SUM(x) FILTER (WHERE ...)


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node calls an aggregate function of Spark."""
    if isinstance(node, _SUFFIXES):
        return is_aggregate(node.this)
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in AGGREGATES
    if isinstance(node, exp.Any):
        return not isinstance(node.parent, exp.Like | exp.ILike)  # t LIKE ANY ('a', 'b')
    return isinstance(node, exp.AggFunc)


def find_aggregates(node: exp.Expr) -> Iterator[exp.Expr]:
    """The aggregates inside an expression, outermost first, each together with its suffixes."""
    return (part for part in node.walk() if is_aggregate(part) and not isinstance(part.parent, _SUFFIXES))
