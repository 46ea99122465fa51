from __future__ import annotations

import pytest

from watersmeet.errors import ConfigurationError
from watersmeet.query import Connector
from watersmeet.spark.session import connectors
from watersmeet.spark.session.packages import (
    JARS,
    PACKAGES,
    POSTGRES,
    add_packages,
    download_refusal,
    installed_spark,
    kafka_package,
)

KAFKA = Connector("kafka", (("topic", "t"),))


def test_the_connector_is_that_of_the_spark_and_scala_installed() -> None:
    import pyspark

    spark, scala, jars = installed_spark()
    assert spark == pyspark.__version__
    assert list(jars.glob(f"scala-library-{scala}.*.jar"))
    assert kafka_package() == f"org.apache.spark:spark-sql-kafka-0-10_{scala}:{spark}"


def test_packages_are_added_to_those_of_the_user() -> None:
    avro = Connector("kafka", (("value", "avro"),))
    found = add_packages({PACKAGES: "a:b:1"}, [KAFKA, avro, Connector("postgres"), Connector("parquet")])
    added = found[PACKAGES].split(",")
    assert added[:2] == ["a:b:1", kafka_package()]
    assert [name.split(":")[1].split("_")[0] for name in added[2:]] == ["spark-avro", "postgresql"]
    assert POSTGRES in added


@pytest.mark.parametrize(
    "settings",
    [
        {PACKAGES: "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"},
        {JARS: "/jars/commons-pool2.jar,/jars/spark-sql-kafka-0-10_2.13-4.2.0.jar"},
        {JARS: "hdfs://h/spark-sql-kafka-0-10-assembly.jar"},
    ],
)
def test_a_connector_the_user_brings_is_left_alone(settings: dict[str, str]) -> None:
    assert add_packages(settings, [KAFKA]) == settings


def test_nothing_is_added_where_nothing_is_needed() -> None:
    assert add_packages({"a": "b"}, [Connector("parquet"), Connector("console")]) == {"a": "b"}


def test_a_package_that_cannot_be_downloaded_is_named_with_the_manual_way() -> None:
    said = (
        'Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: o#k;4.3.0: not found]'
    )
    refusal = download_refusal({PACKAGES: "o:k:4.3.0"}, said)
    assert str(refusal) == (
        "Spark cannot download o:k:4.3.0: o#k;4.3.0: not found.\n"
        "  From a repository that has it:    --conf spark.jars.repositories=URL\n"
        "  In another version:               --conf spark.jars.packages=GROUP:ARTIFACT:VERSION\n"
        "  From files, with all they need:   --conf spark.jars=FIRST.jar,SECOND.jar"
    )
    assert download_refusal({PACKAGES: "o:k:4.3.0"}, "no such master") is None
    assert download_refusal({}, said) is None
    unheard = download_refusal({PACKAGES: "o:k:4.3.0"}, "[JAVA_GATEWAY_EXITED] Java gateway process exited")
    assert str(unheard).startswith(
        "Spark cannot download o:k:4.3.0: its own messages, before this one, say why"
    )


def test_a_session_without_the_connector_learns_which_to_start_with() -> None:
    refusal = connectors._refusal("stream s1", KAFKA, ValueError("[DATA_SOURCE_NOT_FOUND] ..."))
    assert isinstance(refusal, ConfigurationError)
    assert str(refusal) == (
        "stream s1: this Spark session has no format 'kafka'. Start it with "
        f"--conf spark.jars.packages={kafka_package()}"
    )


@pytest.mark.parametrize(
    ("connector", "shown"),
    [
        (Connector("console"), "console"),
        (
            Connector(
                "kafka",
                (
                    ("bootstrap", "h:9092"),
                    ("kafka.sasl.jaas.config", 'Login required username="u" password="p";'),
                    ("kafka.ssl.truststore.password", "p"),
                    ("kafka.sasl.mechanism", "PLAIN"),
                ),
            ),
            "kafka (bootstrap = 'h:9092', kafka.sasl.jaas.config = '***', "
            "kafka.ssl.truststore.password = '***', kafka.sasl.mechanism = 'PLAIN')",
        ),
        (
            Connector("postgres", (("url", "jdbc:postgresql://u:p@h/d?password=p&ssl=1"), ("PassWord", "p"))),
            "postgres (url = 'jdbc:postgresql://***@h/d?password=***&ssl=1', PassWord = '***')",
        ),
        (Connector("s", (("fs.s3a.secret.key", "p"), ("fs.s3a.access.key", "p"))),
         "s (fs.s3a.secret.key = '***', fs.s3a.access.key = '***')"),
    ],
)  # fmt: skip
def test_secrets_are_not_shown(connector: Connector, shown: str) -> None:
    assert connector.pretty() == shown
