"""The environment, read."""

import pytest

from autocompress_operator.settings import SettingsError, Switch, read_settings

ENOUGH = {
    "AUTOCOMPRESS_OPERATOR_IMAGE": "o",
    "AUTOCOMPRESS_STAGE_IMAGE_CPU": "c",
    "AUTOCOMPRESS_STAGE_IMAGE_CUDA": "g",
    "AUTOCOMPRESS_STAGE_IMAGE_TENSORRT_LLM": "t",
}


def test_names_are_fields_in_capitals_and_others_are_ignored():
    settings = read_settings(
        {
            **ENOUGH,
            "AUTOCOMPRESS_WATCH_NAMESPACES": "a,b",
            "AUTOCOMPRESS_NODES": "Disabled",
            "AUTOCOMPRESS_METRICS_PORT": "0",
            "AUTOCOMPRESS_CACHE": "/x",
            "HOME": "/",
        }
    )
    assert settings.watch_namespaces == ("a", "b")
    assert settings.nodes is Switch.DISABLED
    assert settings.metrics_port == 0


def test_empty_values_are_defaults():
    settings = read_settings(
        {**ENOUGH, "AUTOCOMPRESS_WATCH_NAMESPACES": "", "AUTOCOMPRESS_RESYNC_SECONDS": ""}
    )
    assert (settings.watch_namespaces, settings.resync_seconds) == ((), 300)


def test_the_user_of_stage_pods_may_be_the_images():
    assert read_settings(ENOUGH).stage_user_id == 65532
    assert read_settings({**ENOUGH, "AUTOCOMPRESS_STAGE_USER_ID": "Image"}).stage_user_id is None
    assert read_settings({**ENOUGH, "AUTOCOMPRESS_STAGE_USER_ID": "1000"}).stage_user_id == 1000


def test_every_fault_is_told_by_the_name_of_its_variable():
    with pytest.raises(SettingsError) as caught:
        read_settings({"AUTOCOMPRESS_NODES": "yes", "AUTOCOMPRESS_METRICS_PORT": "x"})
    text = str(caught.value)
    assert "AUTOCOMPRESS_OPERATOR_IMAGE: is missing; set it" in text
    assert "AUTOCOMPRESS_NODES: got 'yes'" in text
    assert "AUTOCOMPRESS_METRICS_PORT: got 'x'" in text
