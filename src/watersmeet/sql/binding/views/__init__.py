"""What FROM names beside declared streams: views, declared, in WITH or written in place."""

from watersmeet.sql.binding.views.bind_view import bind_view, with_views
from watersmeet.sql.binding.views.find_stream import find_stream, windows_of
from watersmeet.sql.binding.views.fold_tables import fold_tables

__all__ = ["bind_view", "find_stream", "fold_tables", "windows_of", "with_views"]
