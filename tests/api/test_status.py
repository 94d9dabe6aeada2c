from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from autocompress.api.v1alpha1.status import (
    CompressionJobStatus,
    Condition,
    ConditionReason,
    ConditionStatus,
    ConditionType,
    FailureReason,
    Progress,
    StageName,
    StageState,
    StageStatus,
    decimal_text,
    time_text,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (25, "25"),
        (100.0, "100"),
        (0.712, "0.712"),
        (25769803776.0, "25769803776"),
        (1e-9, "0"),
        (-1e-9, "0"),
        (-2.5, "-2.5"),
        (1 / 3, "0.333333"),
        (1e20, "100000000000000000000"),
    ],
)
def test_numbers_are_plain_decimals(value, text):
    assert decimal_text(value) == text


@given(st.floats(min_value=-1e15, max_value=1e15))
def test_a_number_is_kept_to_six_places(value):
    assert abs(float(decimal_text(value)) - value) <= 1e-6 + abs(value) * 1e-12


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(ValueError, match="not a finite number"):
        decimal_text(value)


def test_times_are_utc_in_whole_seconds():
    time = datetime(2026, 5, 1, 14, 0, 0, 999, tzinfo=timezone(timedelta(hours=2)))
    assert time_text(time) == "2026-05-01T12:00:00Z"


def sample():
    now = datetime(2026, 5, 1, 12, tzinfo=UTC)
    return CompressionJobStatus(
        observed_generation=3,
        current_stage="Search",
        start_time=now,
        stages=(
            StageStatus(
                name=StageName.SEARCH,
                state=StageState.RUNNING,
                progress=Progress(percent=40, estimated_remaining_seconds=1800),
            ),
        ),
        conditions=(
            Condition(
                type=ConditionType.READY,
                status=ConditionStatus.FALSE,
                observed_generation=3,
                last_transition_time=now,
                reason=ConditionReason.STAGE_RUNNING,
            ),
        ),
    )


def test_status_survives_being_written():
    assert CompressionJobStatus.model_validate(sample().model_dump(mode="json")) == sample()


def test_parts_are_found_by_name():
    assert sample().stage(StageName.SEARCH).progress.percent == 40
    assert sample().stage(StageName.RECOVER) is None
    assert sample().condition(ConditionType.READY).reason is ConditionReason.STAGE_RUNNING
    assert sample().condition(ConditionType.STALLED) is None


def test_what_a_newer_operator_wrote_beside_it_is_ignored():
    value = {**sample().model_dump(mode="json"), "newer": 1}
    assert CompressionJobStatus.model_validate(value) == sample()


def test_a_message_beyond_its_bound_is_refused():
    with pytest.raises(ValidationError, match="1024"):
        StageStatus(name=StageName.SEARCH, message="x" * 1025)


def test_a_reason_is_in_one_list_only():
    assert not {*map(str, ConditionReason)} & {*map(str, FailureReason)}
