"""Windows that the conditions on event times imply, for inputs that are written without one."""

from watersmeet.sql.binding.time_conditions.derive import derive_windows

__all__ = ["derive_windows"]
