"""The catalogue of faults keeps up with the source."""

from __future__ import annotations

import pytest

from tests.faults.catalogue import FAULTS, Fault
from tests.paths import ROOT


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_can_be_put_in(fault: Fault) -> None:
    text = (ROOT / "src" / "watersmeet" / fault.file).read_text()
    assert text.count(fault.old) == 1
    assert fault.new not in text or fault.new in fault.old
    compile(text.replace(fault.old, fault.new), fault.file, "exec")  # or any test at all would find it
