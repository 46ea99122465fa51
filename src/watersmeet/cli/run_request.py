"""The arguments of `watersmeet run`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from watersmeet.cli.options import DEFAULT_MASTER
from watersmeet.errors import ConfigurationError
from watersmeet.plan.routing.routing import ROUTINGS
from watersmeet.query import parse_duration
from watersmeet.query.secret_reference import has_reference
from watersmeet.query.stream import is_secret_name
from watersmeet.sites.replan import FACTOR
from watersmeet.spark.exchange.hot_keys import SWITCH
from watersmeet.spark.jobs.job import RunOptions
from watersmeet.spark.jobs.pipeline_file import default_checkpoint
from watersmeet.spark.jobs.state_limit import parse_limit

AUTO = "auto"
ALL_SITES = ""
ON_OFF = {"on": "true", "off": "false"}


@dataclass(frozen=True, kw_only=True)
class Request:
    """The arguments of one `watersmeet run`, checked when they are used."""

    file: Path
    master: str = DEFAULT_MASTER
    available_now: bool = False
    flush: bool = False
    trigger: str | None = None
    checkpoint: str | None = None
    conf: tuple[str, ...] = ()
    stats: Path | None = None
    as_json: bool = False
    log: Path | None = None
    state_limit: str | None = None
    shed: str | None = None
    hot_keys: str | None = None
    routing: str | None = None
    evolve: bool = False
    accept_gap: bool = False
    site: str | None = None  # whose part to run; ALL_SITES: all of them
    plan: str | None = None
    replan: str = "off"  # of all sites
    replan_factor: float = FACTOR

    @property
    def is_of_all_sites(self) -> bool:
        return self.site == ALL_SITES

    @property
    def checkpoint_root(self) -> str:
        return self.checkpoint or str(default_checkpoint(self.file))

    def options(self) -> RunOptions:
        """How to run; refuses options that contradict each other."""
        if self.trigger is not None and self.available_now:
            raise ConfigurationError(
                "--trigger is for a query that keeps running; with --available-now leave it out"
            )
        try:
            trigger_us = None if self.trigger is None else parse_duration(self.trigger)
        except ValueError as error:
            raise ConfigurationError(f"--trigger: {error}") from None
        limit = parse_limit(self.state_limit, self.shed, ("--state-limit", "--shed"))
        if self.plan is not None and self.site is None:
            raise ConfigurationError("--plan names a plan across sites, so it goes with --site")
        return RunOptions(
            trigger_us=trigger_us,
            available_now=self.available_now,
            flush=self.flush,
            limit=limit,
            routing=self._routing(),
            evolve=self.evolve,
            accept_gap=self.accept_gap,
        )

    def _routing(self) -> str | None:
        if self.routing not in (None, AUTO, *ROUTINGS):
            raise ConfigurationError(f"--routing {self.routing}: write one of {', '.join((AUTO, *ROUTINGS))}")
        return None if self.routing == AUTO else self.routing

    def settings(self) -> dict[str, str]:
        """The arguments that become settings of the session."""
        if self.hot_keys is None:
            return {}
        if self.hot_keys not in ON_OFF:
            raise ConfigurationError(f"--hot-keys {self.hot_keys}: write on or off")
        return {SWITCH: ON_OFF[self.hot_keys]}

    def command(self) -> str:
        """The command that asks for the same again, which resumes; secrets written out are left out."""
        return shlex.join(self.words(shown_settings(self.conf)))

    def words(self, conf: Sequence[str]) -> list[str]:
        """The words of the command, with these settings."""
        words = ["watersmeet", "sites" if self.is_of_all_sites else "run", str(self.file)]
        words += ["--master", self.master] if self.master != DEFAULT_MASTER else []
        words += ["--available-now"] if self.available_now else []
        words += ["--flush"] if self.flush else []
        words += ["--trigger", self.trigger] if self.trigger is not None else []
        words += ["--checkpoint", self.checkpoint] if self.checkpoint is not None else []
        words += [word for setting in conf for word in ("--conf", setting)]
        words += ["--stats", str(self.stats)] if self.stats is not None else []
        words += ["--state-limit", self.state_limit] if self.state_limit is not None else []
        words += ["--shed", self.shed] if self.shed is not None else []
        words += ["--log", str(self.log)] if self.log is not None else []
        words += ["--hot-keys", self.hot_keys] if self.hot_keys is not None else []
        words += ["--routing", self.routing] if self.routing is not None else []
        words += ["--site", self.site] if self.site else []
        words += ["--plan", self.plan] if self.plan is not None else []
        words += ["--replan", self.replan] if self.is_of_all_sites and self.replan == "auto" else []
        words += (
            ["--replan-factor", f"{self.replan_factor:g}"]
            if self.is_of_all_sites and self.replan_factor != FACTOR
            else []
        )
        return [*words, *(["--json"] if self.as_json else [])]


def shown_settings(settings: Sequence[str]) -> list[str]:
    """`key=value` texts as they may be shown: secrets written out are left out, references stay.

    >>> shown_settings(["spark.driver.memory=2g", "a.password=hunter2", "b.password=${env:PASSWORD}"])
    ['spark.driver.memory=2g', 'a.password=***', 'b.password=${env:PASSWORD}']
    """

    def shown(setting: str) -> str:
        key, _, value = setting.partition("=")
        return f"{key}=***" if is_secret_name(key) and not has_reference(value) else setting

    return [shown(setting) for setting in settings]
