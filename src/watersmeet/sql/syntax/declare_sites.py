"""CREATE SITE and CREATE LINK into `Site` and `Link`, and what streams say of sites held against them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from watersmeet.query import Link, Site
from watersmeet.sql.syntax.declare import (
    StreamDeclaration,
    connector_of,
    refuse_duplicates,
    settings_of,
    value_of,
)
from watersmeet.sql.syntax.dialect import CreateLink, CreateSite, Setting
from watersmeet.sql.syntax.refuse import Source, nearest, span_of

LINK_NEEDS = {
    "parquet": (("path",), "Name the folder that both sites reach: WITH (format = 'parquet', path = '...')."),
    "kafka": (
        ("bootstrap", "topic"),
        "Name the broker and a topic of its own: "
        "WITH (format = 'kafka', bootstrap = 'host:9092', topic = '...').",
    ),
}


def declare_sites(
    source: Source, sites: Sequence[CreateSite], declarations: Iterable[StreamDeclaration]
) -> tuple[Site, ...]:
    """The declared sites; where there are any, every stream's site is one of them."""
    refuse_duplicates(source, ((item.this.name, span_of(item.this)) for item in sites), "site")
    found = tuple(_site(source, item) for item in sites)
    names = [site.name for site in found]
    for declaration in declarations if found else ():
        site, setting = declaration.stream.site, declaration.site
        if setting is not None and site is not None and _lacks(names, site):
            raise _unknown(declaration.source, site, setting, names)
    return found


def at_declared_site(declaration: StreamDeclaration, sites: Iterable[Site]) -> StreamDeclaration:
    """A stream's declaration with its site spelt as the site is declared."""
    site = declaration.stream.site
    spelt = next((one.name for one in sites if site is not None and one.name.lower() == site.lower()), site)
    return replace(declaration, stream=replace(declaration.stream, site=spelt))


def declare_links(
    source: Source, links: Sequence[CreateLink], sites: Sequence[Site], streams: Iterable[StreamDeclaration]
) -> tuple[Link, ...]:
    """The declared links, each between two known sites and once for each direction."""
    known = [site.name for site in sites]
    known += [each.stream.site for each in streams if each.stream.site is not None and not sites]
    known = list(dict.fromkeys(known))
    found: list[Link] = []
    for item in links:
        link = _link(source, item, known)
        if any(_way(link) == _way(other) for other in found):
            raise source.refuse(
                f"the link from {link.source} to {link.target} is declared twice",
                item.this,
                "There is one link for each direction. Leave one out.",
            )
        if any(_is_one_topic(link, other) for other in found):
            raise source.refuse(
                f"the link from {link.source} to {link.target} is a topic that another link has",
                item.this,
                "Each link needs a topic of its own, or its reader gets what is not for it.",
            )
        found.append(link)
    return tuple(found)


def _site(source: Source, item: CreateSite) -> Site:
    settings = settings_of(source, item.args.get("settings") or [])
    for key, setting in settings.items():
        if key.lower() != "master":
            close = nearest(key, ["master"])
            raise source.refuse(
                f"a site has no setting {key}",
                setting,
                f"Did you mean {close}?" if close else "It takes master = 'local[2]' or 'spark://host:7077'.",
            )
    lowered = {key.lower(): setting for key, setting in settings.items()}
    return Site(item.this.name, value_of(source, lowered, "master"))


def _link(source: Source, item: CreateLink, known: Sequence[str]) -> Link:
    ends = []
    for end in (item.this, item.expression):
        if _lacks(known, end.name):
            raise _unknown(source, end.name, end, known)
        ends.append(next(name for name in known if name.lower() == end.name.lower()))
    if ends[0] == ends[1]:
        raise source.refuse(
            f"a link of {ends[0]} to itself",
            item.expression,
            "What stays at a site crosses no link. Name another site.",
        )
    connector = connector_of(source, item.this, settings_of(source, item.args.get("settings") or []), "link")
    if connector.format.lower() not in LINK_NEEDS:
        raise source.refuse(
            f"a link has no format {connector.format}",
            item.this,
            "It is a folder that both sites reach: WITH (format = 'parquet', path = '...'), or a topic: "
            "WITH (format = 'kafka', bootstrap = 'host:9092', topic = '...').",
        )
    needed, advice = LINK_NEEDS[connector.format.lower()]
    for option in needed:
        if connector.option(option) is None:
            raise source.refuse(f"the link from {ends[0]} to {ends[1]} has no {option}", item.this, advice)
    return Link(ends[0], ends[1], connector)


def _way(link: Link) -> tuple[str, str]:
    return link.source, link.target


def _is_one_topic(link: Link, other: Link) -> bool:
    ours, theirs = link.connector, other.connector
    return ours.option("topic") is not None and all(
        ours.option(name) == theirs.option(name) for name in ("topic", "bootstrap")
    )


def _lacks(names: Collection[str], name: str) -> bool:
    return name.lower() not in {known.lower() for known in names}


def _unknown(source: Source, name: str, at: exp.Expr | Setting, known: Sequence[str]) -> Exception:
    close = nearest(name, known)
    if close:
        advice = f"Did you mean {close}?"
    elif known:
        advice = f"The sites are {', '.join(known)}."
    else:
        advice = f"Declare it: CREATE SITE {name}."
    return source.refuse(f"there is no site {name}", at, advice)
