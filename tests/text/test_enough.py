"""Whether a job's text can be enough is told before its first stage."""

from dataclasses import replace

import pytest

import job_samples
from autocompress.api.reading import read_job
from autocompress.contract.errors import DataError
from autocompress.domain.job import TextSettings
from autocompress.text.enough import check_enough


def job_with(text):
    job = read_job(job_samples.SMALLEST, name="job.yaml").to_domain()
    return replace(
        job,
        text=text,
        search=replace(job.search, calibration_tokens=3000, steps=10, step_tokens=400),
        recovery=replace(job.recovery, tokens=20_000),
    )


def test_text_of_too_few_bytes_is_refused_before_any_stage(tmp_path):
    (tmp_path / "own.txt").write_text("A short text.\n" * 200)
    with pytest.raises(DataError, match=r"too little text for (training|calibration): \d+ bytes"):
        check_enough(job_with(TextSettings(uri=str(tmp_path))))


def test_text_without_held_out_documents_is_refused(tmp_path):
    (tmp_path / "own.jsonl").write_text('{"text": "%s"}\n' % ("word " * 100_000))
    with pytest.raises(DataError, match="0 bytes in 0 documents"):
        check_enough(job_with(TextSettings(uri=str(tmp_path))))


def test_text_enough_for_the_largest_need_passes(tmp_path):
    lines = "".join(f"Line {number} of a text of one's own.\n" for number in range(20_000))
    (tmp_path / "own.txt").write_text(lines)
    job = job_with(TextSettings(uri=str(tmp_path)))
    check_enough(job)
    longer = replace(job, search=replace(job.search, steps=10_000))
    with pytest.raises(DataError, match="4000000 tokens are needed"):
        check_enough(longer)


def test_the_built_in_text_is_left_to_its_stages():
    check_enough(job_with(TextSettings()))
