"""Storage for protocols of commits: the same on this machine's disk, through Hadoop, and in memory."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from tests.spark.sinks.memory_tree import Disk, MemoryTree
from watersmeet.spark.storage.hadoop_tree import HadoopTree, open_tree
from watersmeet.spark.storage.tree import LocalTree, Tree


def check(tree: Tree) -> None:
    """What every tree promises."""
    assert tree.names("log") == []
    assert tree.files("log") == []
    assert tree.read("log/record") is None
    assert tree.create("log/record", "grüß dich")
    assert not tree.create("log/record", "other"), "a file that is there stays"
    assert tree.read("log/record") == "grüß dich"
    assert tree.content("log/record", at_most=20) == "grüß dich".encode()
    assert tree.content("log/record", at_most=5) is None
    assert tree.content("log/none", at_most=5) is None
    for name in ("b", "k=1 %/a", "_hidden", ".hidden", "_folder/c"):
        assert tree.create(f"log/stage/{name}", name)
    assert tree.files("log/stage") == ["b", "k=1 %/a"]
    assert tree.names("log") == ["record", "stage"]
    tree.move("log/stage/k=1 %/a", "k=1 %/moved")
    assert tree.read("k=1 %/moved") == "k=1 %/a"
    tree.move("log/stage/k=1 %/a", "k=1 %/moved")
    assert tree.read("k=1 %/moved") == "k=1 %/a", "a move that was made is not made again"
    tree.move("log/stage/b", "k=1 %/moved")
    assert tree.read("k=1 %/moved") == "b", "what is there is replaced"
    tree.remove("log/stage")
    tree.remove("log/stage")
    tree.remove("log/none")
    assert tree.names("log") == ["record"]
    tree.remove("log/record")
    assert tree.names("log") == []


def test_a_tree_in_memory() -> None:
    check(MemoryTree(Disk()))


def test_a_tree_on_this_machines_disk(tmp_path: Path) -> None:
    check(LocalTree(tmp_path / "new"))


def test_a_tree_through_hadoop(spark: SparkSession, tmp_path: Path) -> None:
    check(HadoopTree(spark, f"file://{tmp_path}/new"))
    assert open_tree(spark, f"{tmp_path}/new") == LocalTree(tmp_path / "new")
    assert open_tree(spark, "s3a://bucket/new") == HadoopTree(spark, "s3a://bucket/new")
