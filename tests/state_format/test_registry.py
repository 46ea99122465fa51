"""The registry of `watersmeet serve` says in which state format its dataflow was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.state_format.cases import DECLARED, PARTITIONS, shared_dataflow
from watersmeet.errors import ConfigurationError
from watersmeet.plan.state_format import STATE_FORMAT
from watersmeet.serve.registry.folder import RegistryFolder
from watersmeet.serve.registry.record import RECORD, RegistryRecord, read_record, write_record


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
    for version, written in ((99, "state format 99, by a newer"), (None, "ring format 1, by an older")):
        changed = {**fields, "state_format": version}
        if version is None:
            del changed["state_format"]  # as before there was one number for all state
        folder.write(RECORD, json.dumps(changed))
        with pytest.raises(ConfigurationError, match=f"in {written} .*reads state format {STATE_FORMAT}"):
            read_record(folder)
