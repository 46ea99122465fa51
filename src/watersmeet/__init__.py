"""Watersmeet: continuous multi-way window joins over distributed streams, in SQL, on Spark."""

from watersmeet.errors import ConfigurationError, DataError, SqlError, WatersmeetError
from watersmeet.session import Session

__version__ = "0.1.0"

__all__ = ["ConfigurationError", "DataError", "Session", "SqlError", "WatersmeetError", "__version__"]
