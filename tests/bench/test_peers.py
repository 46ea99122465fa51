"""The benchmark of peers: all engines get the same rows and join; only right answers are compared."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from benchmarks.peers import compare, measure
from benchmarks.peers.data import job_of, prepare
from benchmarks.peers.flink_sql import create_source, interval_joins, regular_join
from benchmarks.peers.job import Job, Source
from benchmarks.peers.measure import Figures, digest_of

from watersmeet.bench.engines import run_duckdb
from watersmeet.bench.workloads import WORKLOADS

ROWS = 12_000  # of all streams


@pytest.fixture(scope="module", params=compare.WORKLOAD_NAMES)
def job(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Job:
    folder = tmp_path_factory.mktemp(request.param)
    workload = WORKLOADS[request.param]
    assert prepare(workload, folder, batch_rows=ROWS // 2, batches=2) == ROWS
    return job_of(workload, folder, folder / "out", 2)


def test_a_step_is_anchored_at_a_stream_it_equals_and_checked_with_the_others() -> None:
    chain = job_of(WORKLOADS["chain4"], Path("in"), Path("out"), 2)
    told = [(step.source.alias, step.equalities, step.anchor, step.others) for step in chain.steps]
    assert told == [
        ("b", ((("a", "a"), "a"),), "a", ()),
        ("c", ((("b", "b"), "b"),), "b", ("a",)),
        ("d", ((("c", "c"), "c"),), "c", ("a", "b")),
    ]


def test_a_stream_joined_to_none_before_it_is_refused() -> None:
    sources = tuple(Source(f"s{n}", alias, ("k",)) for n, alias in enumerate("abc"))
    with pytest.raises(ValueError, match="b has no equality with a"):
        _ = Job("w", sources, (("a.k", "c.k"), ("c.k", "b.k")), 1, 1, Path("in"), Path("out"), 2).steps


def test_a_job_survives_its_file(job: Job) -> None:
    assert Job.from_json(job.as_json()) == job


@pytest.mark.parametrize("join", [interval_joins, regular_join])
def test_flinks_sql_asks_for_the_workloads_answers(job: Job, join: object) -> None:
    """DuckDB reads the very text that Flink is given, over the very files."""
    assert callable(join)
    truth = run_duckdb(WORKLOADS[job.workload], job.folder)
    connection = duckdb.connect()
    for source in job.sources:
        files = f"{job.folder}/whole/{source.name}/*.parquet"
        connection.execute(
            f"CREATE VIEW {source.name} AS "
            f"SELECT * REPLACE (epoch_us(ts) AS ts), ts AS rowtime FROM '{files}'"
        )
    job.out.mkdir(exist_ok=True)
    connection.execute(f"COPY ({join(job)}) TO '{job.out}/part' (FORMAT parquet)")
    assert truth.answers > 0
    assert digest_of(WORKLOADS[job.workload], job.out) == (truth.answers, truth.digest)


def test_flinks_tables_are_where_the_rows_are(job: Job) -> None:
    for source in job.sources:
        assert f"file://{job.folder}/whole/{source.name}'" in create_source(job, source, "whole")
        assert [file.name for file in (job.folder / "whole" / source.name).iterdir()] == ["all.parquet"]


def test_rows_in_csv_are_the_rows_in_parquet_and_a_mark(job: Job) -> None:
    connection = duckdb.connect()
    for number, source in enumerate(job.sources):
        keys = ", ".join(source.keys)
        places = ", ".join(f"k{place}" for place in range(len(source.keys)))
        want = f"SELECT {keys}, size, epoch_us(ts) FROM '{job.folder}/{source.name}/*.parquet'"
        apart = f"SELECT {keys}, size, ts FROM '{job.folder}/apart/{source.name}/*.csv'"
        together = f"SELECT {places}, size, ts FROM '{job.folder}/together/*.csv' WHERE stream = {number}"
        for got in (apart, together):
            extra = connection.execute(f"({got}) EXCEPT ALL ({want})").fetchall()
            assert [row[:-1] for row in extra] == [(-1,) * (len(source.keys) + 1)]
            assert connection.execute(f"({want}) EXCEPT ALL ({got})").fetchall() == []


def test_streams_together_come_by_event_time_with_the_marks_last(job: Job) -> None:
    read = f"SELECT ts, size FROM read_csv('{job.folder}/together/000000.csv', parallel = false)"
    rows = duckdb.connect().execute(read).fetchall()
    assert [ts for ts, _ in rows] == sorted(ts for ts, _ in rows)
    assert [size for _, size in rows[-len(job.sources) :]] == [-1] * len(job.sources)
    assert all(size > 0 for _, size in rows[: -len(job.sources)])


def test_withdrawn_answers_and_the_mark_do_not_count(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    lines = ["1,2,3,50,10,1", "1,2,3,50,10,1", "4,5,6,60,10,1", "4,5,6,60,20,-1", "-1,-1,-1,70,30,1"]
    (out / "answers.csv").write_text("\n".join(["size_a,size_b,size_c,answer_us,time,diff", *lines]))
    twice = digest_of(WORKLOADS["netmon3"], out)
    (out / "answers.csv").write_text("\n".join(["size_a,size_b,size_c,answer_us,time,diff", lines[0]]))
    once = digest_of(WORKLOADS["netmon3"], out)
    assert (twice[0], once[0]) == (2, 1)
    assert twice[1] == 2 * once[1]


def figures(engine: str, startup_s: float, half_s: float, seconds: float, problem: str = "") -> Figures:
    return Figures("netmon3", engine, 1000, startup_s, half_s, seconds, 0, 5, 7, problem=problem)


def test_rates_leave_out_the_start_up_or_the_first_half() -> None:
    told = figures("flink", 1.0, 4.0, 6.0)
    assert told.net_rows_per_s == pytest.approx(1000 / 5)
    assert told.steady_rows_per_s == pytest.approx(500 / 2)


def test_ours_takes_its_halves_from_its_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = [{"rows": 10, "ms": ms} for ms in (4000, 1000, 500, 500)]
    record = {"batches": batches, "answers": 5, "digest": 7}
    (tmp_path / "ours.json").write_text(json.dumps(record))
    monkeypatch.setattr(measure, "_watch", lambda *_: 123)
    run = measure.run_ours(WORKLOADS["netmon3"], "ours", tmp_path, 2, 1.0)
    assert (run.seconds, run.first_half_s, run.peak_bytes) == (6.0, 5.0, 123)


def test_an_engine_with_other_answers_gets_no_ratio() -> None:
    ours, right = figures("ours", 0, 1, 2), figures("flink", 0, 5, 10)
    wrong = compare.judged(right, 6, 7)
    assert compare.judged(right, 5, 7) == right
    assert wrong.problem == "wrong: 5 answers, of 6"
    assert compare.speedups(right, [ours, right]) == (5.0, 5.0)
    assert compare.speedups(wrong, [ours, wrong]) is None


def test_figures_are_added_to_those_of_an_earlier_run(tmp_path: Path) -> None:
    old, new = figures("flink", 0, 5, 10), figures("flink", 0, 4, 8)
    path = tmp_path / "peers.json"
    path.write_text(json.dumps(compare.as_json([old, figures("ours", 0, 1, 2)])))
    known = compare.add(compare.read(path), [new])
    assert known == [new, figures("ours", 0, 1, 2)]
    assert compare.as_json(known)["figures"][0]["ours_over_it"] == {"steady": 4.0, "net": 4.0}


def test_an_engine_that_fails_or_hangs_is_reported(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with pytest.raises(measure.EngineError, match="failed: no such engine"):
        measure._watch(["sh", "-c", "echo no such engine; exit 3"], log, 10.0)
    with pytest.raises(measure.EngineError, match="stopped after 0 s"):
        measure._watch(["sleep", "60"], log, 0.1)
