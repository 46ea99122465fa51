"""The limit of a query's state, as a person gives it: an option, or a setting of the session."""

from __future__ import annotations

from pyspark.sql import SparkSession

from watersmeet.errors import ConfigurationError
from watersmeet.kernel import Shed, StateLimit
from watersmeet.query.byte_size import parse_bytes_of

LIMIT = "spark.watersmeet.stateLimit"
SHED = "spark.watersmeet.shed"
LEAST_BYTES = 100_000  # a bucket's empty indexes alone take some


def parse_limit(size: str | None, shed: str | None, names: tuple[str, str]) -> StateLimit | None:
    """The limit that two texts ask for; `names` is what the person calls them."""
    if size is None:
        if shed is not None:
            raise ConfigurationError(
                f"{names[1]} {shed} says what to shed; say from which size on: {names[0]} 2GB"
            )
        return None
    nbytes = parse_bytes_of(names[0], size)
    if nbytes < LEAST_BYTES:
        raise ConfigurationError(f"{names[0]} {size}: nothing can be joined in less than {LEAST_BYTES} bytes")
    try:
        return StateLimit(nbytes, Shed(shed.lower()) if shed is not None else Shed.RANDOM)
    except ValueError:
        known = ", ".join(Shed)
        raise ConfigurationError(f"{names[1]} {shed}: it is one of {known}") from None


def session_limit(spark: SparkSession) -> StateLimit | None:
    """The limit that the session's settings ask for."""
    return parse_limit(spark.conf.get(LIMIT, None), spark.conf.get(SHED, None), (LIMIT, SHED))
