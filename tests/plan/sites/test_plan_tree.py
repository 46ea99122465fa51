"""Plan trees: how they read, what crosses which link, and their JSON."""

from __future__ import annotations

import json

from watersmeet.plan.sites.plan_tree import (
    LinkLoad,
    MJoin,
    PartitionPlan,
    PMJoin,
    StreamLeaf,
    cost_bytes_per_s,
    links,
)


def partition(number: int, site: str, other: str) -> PartitionPlan:
    """s1 meets s2 at the second stream's site."""
    first, second = ("s2", "s1") if site == "n1" else ("s1", "s2")
    inputs = (StreamLeaf(first, other, 1.0, 10.0), StreamLeaf(second, site, 1000.0, 10.0))
    return PartitionPlan(f"v{number}", MJoin(inputs, site, 2.0, 20.0))


S1, S2, S3 = (StreamLeaf(f"s{n}", f"n{n}", 3500.0, 10.0) for n in (1, 2, 3))
PARTS = (*(partition(n, "n1", "n2") for n in range(1, 7)), partition(7, "n2", "n1"))
TREE = MJoin(
    (
        PMJoin(attribute="s1.k = s2.k", inputs=(S1, S2), partitions=PARTS, rate_per_s=14.0, tuple_bytes=20.0),
        S3,
    ),
    "n3",
    0.5,
    30.0,
)


def test_partitions_with_plans_alike_are_printed_as_one() -> None:
    assert (
        TREE.pretty()
        == """\
MJoin at n3: 0.5 tuples/s
├─ PMJoin on s1.k = s2.k: 14 tuples/s, 7 partitions
│  ├─ 6 partitions alike (v1, v2, v3, v4, ...)
│  │  └─ MJoin at n1: 12 tuples/s, 240 bytes/s -> n3
│  │     ├─ s2 at n2: 6 tuples/s, 60 bytes/s -> n1
│  │     └─ s1 at n1: 6,000 tuples/s
│  └─ partition v7
│     └─ MJoin at n2: 2 tuples/s, 40 bytes/s -> n3
│        ├─ s1 at n1: 1 tuples/s, 10 bytes/s -> n2
│        └─ s2 at n2: 1,000 tuples/s
└─ s3 at n3: 3,500 tuples/s"""
    )


def test_links_add_partitions_up_and_make_the_cost() -> None:
    assert links(TREE) == (
        LinkLoad("n2", "n1", "s2", 60.0),
        LinkLoad("n1", "n2", "s1", 10.0),
        LinkLoad("n1", "n3", "s1 ⋈ s2", 240.0),
        LinkLoad("n2", "n3", "s1 ⋈ s2", 40.0),
    )
    assert cost_bytes_per_s(TREE) == 350.0


def test_a_partition_that_ends_where_the_parent_runs_ships_nothing_more() -> None:
    inner = PMJoin(
        attribute="k",
        inputs=(S1, S2),
        partitions=(partition(1, "n1", "n2"), partition(2, "n2", "n1")),
        rate_per_s=4.0,
        tuple_bytes=20.0,
    )
    plan = MJoin((inner, StreamLeaf("s3", "n1", 1.0, 10.0)), "n1", 1.0, 30.0)
    assert [(load.source, load.target) for load in links(plan)] == [("n2", "n1"), ("n1", "n2"), ("n2", "n1")]
    assert cost_bytes_per_s(plan) == 10.0 + 10.0 + 40.0


def test_streams_at_one_site_cross_nothing() -> None:
    here = MJoin((StreamLeaf("a", "n", 1.0, 1.0), StreamLeaf("b", "n", 1.0, 1.0)), "n", 1.0, 2.0)
    assert links(here) == ()
    assert cost_bytes_per_s(StreamLeaf("a", "n", 1.0, 1.0)) == 0.0


def test_json_holds_the_whole_tree() -> None:
    data = json.loads(json.dumps(TREE.to_json()))
    assert (data["operator"], data["site"], data["bytes_per_s"]) == ("mjoin", "n3", 15.0)
    inner = data["inputs"][0]
    assert (inner["operator"], inner["attribute"], inner["site"]) == ("pmjoin", "s1.k = s2.k", "n1, n2")
    assert [part["partition"] for part in inner["partitions"]] == [f"v{n}" for n in range(1, 8)]
    assert [leaf["stream"] for leaf in inner["partitions"][6]["plan"]["inputs"]] == ["s1", "s2"]
    assert data["inputs"][1] == {
        "operator": "stream",
        "stream": "s3",
        "site": "n3",
        "rate_per_s": 3500.0,
        "bytes_per_s": 35000.0,
    }
