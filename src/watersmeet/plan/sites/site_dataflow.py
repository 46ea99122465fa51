"""A site's program as a dataflow of joins in levels, in the form in which the engine runs them.

Rows are tuples and partial results alike: each brings its lifetime, a key column for every attribute class
that something outside of it is still to be compared by, and the payload that answers need. A port of a join
is a relation, and so is what a join hands to the next one at the same site. An MJoin over several attributes
becomes joins of one attribute each, one level after the other, as the engine's buckets are cut by one value.

Nothing a port keeps may be forgotten before all that can still arrive at its join is past it. So a relation
names the origins, here or beyond a link, whose progress bounds what comes to the join.

    MJoin of a, b, c at a site, a.x = b.x, b.y = c.y     level 1: a, b by x     level 2: their results, c by y
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from watersmeet.errors import QueryError
from watersmeet.plan.sites.placement import PlacedJoin
from watersmeet.plan.sites.site_program import Send, SiteProgram, origin_of_join
from watersmeet.query import Query
from watersmeet.query.shared_dataflow import Join, QueryTail, Relation, SharedDataflow

ELSEWHERE = ""  # the source of a relation whose rows are brought to it, by a send


@dataclass(frozen=True, kw_only=True)
class SiteDataflow:
    """The dataflow of a site. `levels + 1` is where rows are that leave it.

    `leaves` are the origins that arrive here or come over a link, by whose progress that of any origin here
    is known: the results of a join are no earlier than the least of its own.
    """

    program: SiteProgram
    dataflow: SharedDataflow
    leaves: Mapping[str, tuple[str, ...]]
    ports: Mapping[str, Relation]  # by name

    @property
    def sends(self) -> dict[str, Send]:
        return {send.name: send for send in self.program.sends}

    @property
    def answer_leaves(self) -> tuple[str, ...]:
        """The leaves by whose progress that of the answers found here is known; none if none are."""
        last = [origin_of_join(join.number) for join in self.program.joins if join.route is None]
        return tuple(dict.fromkeys(leaf for origin in last for leaf in self.leaves[origin]))


def row_keys(query: Query, aliases: Sequence[str]) -> dict[int, str]:
    """The key columns of rows that consist of these inputs, by class: those that others are compared by."""
    inside = [alias for alias in query.graph.aliases if alias in aliases]
    keys = {}
    for number, cls in enumerate(query.graph.classes):
        own = [alias for alias in inside if alias in cls.aliases]
        if own and len(own) < len(cls.aliases):
            keys[number] = f"{own[0]}.#{number}"
    return keys


def row_payload(query: Query, aliases: Sequence[str]) -> tuple[str, ...]:
    """The payload columns of rows that consist of these inputs."""
    inside = [alias for alias in query.graph.aliases if alias in aliases]
    return tuple(f"{alias}.{column}" for alias in inside for column in query.payload(alias))


def why_not_across_sites(query: Query) -> str | None:
    """Why a query cannot run across sites for now, or None."""
    for item in query.inputs:
        if item.window.counts_rows:
            return f"{item.pretty()} counts rows, so the end of a tuple's lifetime is known only later"
        if any(stream.answers is not None for stream in item.stream.origins):
            return f"{item.alias} are the answers of another query"
        if item.stream.view:
            return f"{item.alias} is a view, or joined with a table"
        if item.stream.idle_after_us is not None:
            return f"stream {item.stream.name} has idle_after, and no other site could tell that it is idle"
    if query.tree is not None:
        return "it has outer, semi or anti joins"
    return None


def site_dataflow(query: Query, program: SiteProgram) -> SiteDataflow:
    """The dataflow of one site's program."""
    reason = why_not_across_sites(query)
    if reason is not None:
        raise QueryError(f"the query does not run across sites: {reason}")
    return _Builder(query, program).build()


@dataclass(frozen=True)
class _Node:
    """A part of a join on its way to being joined: a port, or what some of them have made."""

    name: str  # of its relation
    aliases: tuple[str, ...]
    level: int  # at which it can be joined
    source: str  # a join of the dataflow, or `ELSEWHERE`


@dataclass
class _Builder:
    query: Query
    program: SiteProgram
    joins: list[Join] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)
    _levels: dict[int, int] = field(default_factory=dict)  # of the last join of each placed one
    _leaves: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def build(self) -> SiteDataflow:
        for alias in self.program.aliases:
            self._leaves[alias] = (alias,)
        for send in self.program.receives:
            self._leaves[send.origin] = (send.origin,)
        placed = {join.number: join for join in self.program.joins}
        for number in placed:
            self._lower(number, placed)
        levels = max((join.level for join in self.joins), default=1)
        for send in self.program.sends:
            if send.origin not in self.program.aliases:
                self.relations.append(self._outgoing(send, levels + 1))
        tails = tuple(self._tail(join) for join in self.program.joins if join.route is None)
        dataflow = SharedDataflow(
            levels=levels,
            streams=(self.program.site,),  # lateness is settled where tuples arrive
            relations=tuple(self.relations),
            joins=tuple(self.joins),
            tails=tails,
        )
        ports = {relation.name: relation for relation in self.relations if relation.source == ELSEWHERE}
        return SiteDataflow(program=self.program, dataflow=dataflow, leaves=self._leaves, ports=ports)

    def _lower(self, number: int, placed: Mapping[int, PlacedJoin]) -> int:
        """Makes the joins of a placed one, after those it takes results of; the level of the last."""
        if number in self._levels:
            return self._levels[number]
        join, leaves = placed[number], dict[str, None]()
        nodes = []
        for n, aliases in enumerate(join.inputs):
            level = 1
            for origin in self._origins(number, n):
                if origin.startswith("#") and int(origin[1:]) in placed:
                    level = max(level, 1 + self._lower(int(origin[1:]), placed))
                leaves |= dict.fromkeys(self._leaves[origin])
            nodes.append(_Node(f"{number}.{n}", aliases, level, ELSEWHERE))
        self._leaves[origin_of_join(number)] = tuple(leaves)
        self._levels[number] = self._join_up(number, nodes, tuple(leaves))
        return self._levels[number]

    def _origins(self, join: int, input_: int) -> list[str]:
        every = [*self.program.sends, *self.program.receives]
        return [send.origin for send in every if (send.port.join, send.port.input) == (join, input_)]

    def _join_up(self, number: int, nodes: list[_Node], leaves: tuple[str, ...]) -> int:
        """Joins what shares an attribute until one node is left: the most at once first."""
        step = 0
        while True:
            keys = [row_keys(self.query, node.aliases) for node in nodes]
            having = {
                cls: [node for node, own in zip(nodes, keys, strict=True) if cls in own]
                for cls in range(len(self.query.graph.classes))
            }
            cls = max(having, key=lambda cls: (len(having[cls]), -cls))
            members = having[cls]
            if len(members) < 2:
                raise QueryError(f"no condition connects what is joined at {self.program.site}")
            is_last = len(members) == len(nodes)
            name = origin_of_join(number) if is_last else f"{origin_of_join(number)}~{step}"
            level = max(node.level for node in members)
            self._join(name, level, cls, members, leaves)
            if is_last:
                return level
            together = tuple(alias for node in members for alias in node.aliases)
            joined = _Node(f"{name}>", together, level + 1, name)
            nodes = [*(node for node in nodes if node not in members), joined]
            step += 1

    def _join(
        self, name: str, level: int, cls: int, members: Sequence[_Node], leaves: tuple[str, ...]
    ) -> None:
        together = [alias for node in members for alias in node.aliases]
        keys = {node.name: row_keys(self.query, node.aliases) for node in members}
        shared = [
            c for c in range(len(self.query.graph.classes)) if sum(c in own for own in keys.values()) > 1
        ]
        equalities = []
        for c in [cls, *(other for other in shared if other != cls)]:
            first, *others = [own[c] for own in keys.values() if c in own]
            equalities += [(first, other) for other in others]
        for node in members:
            own = keys[node.name]
            probed = [own[cls], *(own[c] for c in shared if c != cls and c in own)]
            carried = [column for column in own.values() if column not in probed]
            self.relations.append(
                Relation(
                    name=node.name,
                    level=level,
                    source=node.source,
                    window=None,
                    slot=None,
                    route=own[cls],
                    keys=tuple(probed),
                    columns=(*carried, *row_payload(self.query, node.aliases)),
                    streams=leaves,
                )
            )
        columns = (*row_keys(self.query, together).values(), *row_payload(self.query, together))
        self.joins.append(
            Join(
                name=name,
                level=level,
                members=tuple(node.name for node in members),
                equalities=tuple(equalities),
                columns=columns,
                slots=(),
            )
        )

    def _outgoing(self, send: Send, level: int) -> Relation:
        """What a join hands to a send, as a relation beyond the last level."""
        keys = tuple(row_keys(self.query, send.aliases).values())
        return Relation(
            name=send.name,
            level=level,
            source=send.origin,
            window=None,
            slot=None,
            route=keys[0],
            keys=keys,
            columns=row_payload(self.query, send.aliases),
            streams=self._leaves[send.origin],
        )

    def _tail(self, join: PlacedJoin) -> QueryTail:
        return QueryTail(
            query="",
            number=join.number,
            join=origin_of_join(join.number),
            streams=(self.program.site,),
            slots=tuple((alias, alias) for alias in self.query.graph.aliases),
            conditions=tuple(expr.sql for expr in self.query.residual),
            payload=row_payload(self.query, self.query.graph.aliases),
            with_end=self.query.combines_answers,
        )
