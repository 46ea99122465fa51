"""The planner's site advice put to the test: predicted bytes beside those that cross simulated links."""

from watersmeet.lab.wan.advice.advice import SiteSimulation, sample_seconds, simulate_advice
from watersmeet.lab.wan.advice.sample import SiteSample, draw_sample, taken_sample

__all__ = ["SiteSample", "SiteSimulation", "draw_sample", "sample_seconds", "simulate_advice", "taken_sample"]
