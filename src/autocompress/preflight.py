"""What is checked before the first stage: all that later stages would fail on and that needs no
accelerator, no engine and no weights.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

from autocompress.api.v1alpha1 import CompressionJob
from autocompress.contract.errors import EngineError, UnavailableError
from autocompress.contract.stage import Outcome
from autocompress.contract.termination import StageReport
from autocompress.cost.space import default_space
from autocompress.domain.job import Job
from autocompress.engines.capabilities import capabilities, restrict
from autocompress.engines.vllm.conditions import check_version
from autocompress.evaluation.suites import find_suite
from autocompress.families.fields import Config
from autocompress.families.registry import identify
from autocompress.sources.look import look_at
from autocompress.store.protocol import Store
from autocompress.text.enough import check_enough

_STAGE = "preflight"
#: ``model_type`` of a model that was compressed before; its sizes are read by the stage.
OWN_MODEL_TYPE = "autocompress"


def check(
    parsed: CompressionJob, open_store: Callable[[], Store], *, cache_dir: Path
) -> StageReport:
    """Check suite, engine, store, source and text, in this order.

    Raises:
        SpecError: a suite, engine or size that is not known or does not fit.
        AccessError, UnavailableError, DiskFullError: the store or the source cannot be used.
        DataError: the source is no model of a known family, or the text is too little.
    """
    job = parsed.to_domain()
    find_suite(job.quality.suite, job.quality.limit)
    capabilities(job.target.engine, job.target.accelerator)
    left = _check_engine(job)
    store = open_store()
    probe(store)
    look = look_at(job.source, cache_dir)
    left += [look.left] if look.left else []
    check_enough(job)
    told = [f"{store.uri} can be written and read"]
    if look.config is not None:
        told.append(f"{job.source.uri} is {_describe(look.config, job)}")
    if left:
        told.append(f"left to the stages: {'; '.join(left)}")
    return StageReport(
        stage=_STAGE,
        outcome=Outcome.DONE,
        message=". ".join(told),
        source_revision=look.revision or "",
    )


def probe(store: Store) -> None:
    """Write, read and delete an object.

    Raises:
        AccessError, UnavailableError, DiskFullError: one of the three is not possible.
    """
    key, data = f"probes/{uuid.uuid4().hex}", uuid.uuid4().bytes
    store.put(key, data)
    try:
        if store.get(key) != data:
            raise UnavailableError(
                f"{store.uri}: an object was read back other than it was written; check what "
                "stands between here and the store"
            )
    except KeyError:
        raise UnavailableError(
            f"{store.uri}: an object that was just written is not there; the store must show "
            "objects as soon as they are written"
        ) from None
    finally:
        store.delete(key)


def _check_engine(job: Job) -> list[str]:
    try:
        check_version(job.target.engine)
    except EngineError:
        return [
            f"the version of {job.target.engine.name.value}, {job.target.engine.version}: the "
            "engine is not installed here"
        ]
    return []


def _describe(config: Config, job: Job) -> str:
    if config.get("model_type") == OWN_MODEL_TYPE:
        return "a compressed model"
    family = identify(config)
    architecture, traits = family.read_config(config)
    able = capabilities(job.target.engine, job.target.accelerator)
    restrict(default_space(architecture, job.search), able)
    return f"of family {traits.family}, {architecture.parameters():,} parameters"
