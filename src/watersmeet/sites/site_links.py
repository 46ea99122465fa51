"""The links of a site as its file declares them, folders or topics; others are below the checkpoint."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from watersmeet.query import Link
from watersmeet.spark.session.connectors import resolve
from watersmeet.spark.sites.link_folder import LinkFolder
from watersmeet.spark.sites.link_record import LinkRecord
from watersmeet.spark.sites.link_topic import LinkTopic
from watersmeet.spark.sites.plan_tasks import Program
from watersmeet.spark.sites.tasks import Topic

Way = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class SiteLinks:
    """The links of one site's part of a query; `part` is the query's name, with the number of its plan."""

    links: tuple[Link, ...]  # as declared
    program: Program
    part: str
    root: str  # the checkpoint of all sites
    base: Path  # what paths in the file are relative to

    @property
    def topics(self) -> dict[str, str]:
        """The links that are topics, by what they join."""
        ways = [(source, self.program.site) for source in self.program.sources]
        ways += [(self.program.site, target) for target in self.program.targets]
        return {f"{a} to {b}": topic for a, b in ways if (topic := self._topic((a, b)))}

    @property
    def incoming_topics(self) -> dict[str, Topic]:
        """Those that something comes over, by the site it comes from."""
        found = {source: self._topic((source, self.program.site)) for source in self.program.sources}
        return {source: Topic(topic, self.part) for source, topic in found.items() if topic}

    def incoming(self, spark: SparkSession) -> dict[str, LinkFolder | LinkTopic]:
        """By the site they come from."""
        site = self.program.site
        return {source: self._open(spark, (source, site), None) for source in self.program.sources}

    def outgoing(self, spark: SparkSession, folder: str) -> dict[str, LinkFolder | LinkTopic]:
        """By the site they go to; `folder` is that of the site's part, which keeps what was sent."""
        return {
            target: self._open(spark, (self.program.site, target), LinkRecord(spark, folder, target))
            for target in self.program.targets
        }

    def _open(self, spark: SparkSession, way: Way, record: LinkRecord | None) -> LinkFolder | LinkTopic:
        declared = declared_link(self.links, way)
        if declared is not None and is_topic(declared):
            return LinkTopic(spark, *way, declared.connector, self.part, record)
        return LinkFolder(spark, *way, link_folder(self.links, self.root, self.part, way, self.base), record)

    def _topic(self, way: Way) -> str | None:
        link = declared_link(self.links, way)
        return link.connector.option("topic") if link is not None and is_topic(link) else None


def declared_link(links: Iterable[Link], way: Way) -> Link | None:
    """What the file says of a link; None if nothing, and the link is a folder below the checkpoint."""
    return next((link for link in links if (link.source, link.target) == way), None)


def link_folder(links: Iterable[Link], root: str, part: str, way: Way, base: Path) -> str:
    """Where a query's link between two sites is, if it is a folder: as declared, or below the checkpoint."""
    link = declared_link(links, way)
    if link is None:
        return f"{root}/links/{part}/{way[0]}-to-{way[1]}"
    options = resolve(link.connector, base, f"the link from {way[0]} to {way[1]}")
    return f"{options['path']}/{part}"


def is_topic(link: Link) -> bool:
    """Whether a link is a topic of Kafka, and no folder."""
    return link.connector.format.lower() == "kafka"
