"""The complete job, for every test of reports."""

from __future__ import annotations

import pytest
from report_samples import complete

from autocompress.report.data import ReportData


@pytest.fixture
def full() -> ReportData:
    return complete()
