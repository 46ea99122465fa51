"""Watersmeet: continuous multi-way window joins over distributed streams, in SQL, on Spark."""

from typing import TYPE_CHECKING, Any

from watersmeet.errors import ConfigurationError, DataError, SqlError, WatersmeetError

if TYPE_CHECKING:
    from watersmeet.session import Session

__version__ = "0.1.0"

__all__ = ["ConfigurationError", "DataError", "Session", "SqlError", "WatersmeetError", "__version__"]


def __getattr__(name: str) -> Any:
    """Loads the session when it is first asked for: workers, the kernel and the labs do without it."""
    if name == "Session":
        from watersmeet.session import Session

        return Session
    raise AttributeError(f"module 'watersmeet' has no attribute '{name}'")
