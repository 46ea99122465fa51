"""The registry of `watersmeet serve` says in which state format its dataflow was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.state_format.cases import DECLARED, PARTITIONS, shared_dataflow
from watersmeet.errors import ConfigurationError
from watersmeet.plan.state_format import STATE_FORMAT
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.record import OLD_RECORD, RECORD, RegistryRecord, read_record, write_record


def test_a_registry_of_another_state_format_is_refused(tmp_path: Path) -> None:
    folder = RegistryFolder(tmp_path)
    record = RegistryRecord(
        id="id",
        file="streams.sql",
        declarations=DECLARED,
        levels=2,
        partitions=PARTITIONS,
        checkpoint=str(tmp_path),
        dataflow=shared_dataflow(),
    )
    write_record(folder, record)
    assert read_record(folder) is not None
    fields = json.loads(record.to_json())
    folder.write(RECORD, json.dumps({**fields, "state_format": 99}))
    with pytest.raises(ConfigurationError, match=f"99, by a newer .*reads state format {STATE_FORMAT}"):
        read_record(folder)
    (tmp_path / RECORD).rename(tmp_path / OLD_RECORD)  # what the record was called until format 3
    with pytest.raises(ConfigurationError, match=f"1, by an older .*reads state format {STATE_FORMAT}"):
        read_record(folder)
