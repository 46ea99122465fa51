"""The papers' experiments run again, drawn as their figures and judged by their claims."""

from watersmeet.lab.figures.figure import Claim, FigureResult
from watersmeet.lab.figures.files import copy_pictures, read_figures, write_figure
from watersmeet.lab.figures.page import figure_page
from watersmeet.lab.figures.registry import figure_titles, run_figure
from watersmeet.lab.figures.runners import Progress, Runner, run_here, run_in_processes
from watersmeet.lab.figures.svg_chart import Panel, Series, draw
from watersmeet.lab.figures.text_chart import draw_text

__all__ = [
    "Claim",
    "FigureResult",
    "Panel",
    "Progress",
    "Runner",
    "Series",
    "copy_pictures",
    "draw",
    "draw_text",
    "figure_page",
    "figure_titles",
    "read_figures",
    "run_figure",
    "run_here",
    "run_in_processes",
    "write_figure",
]
