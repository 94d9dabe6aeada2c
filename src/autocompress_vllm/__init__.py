"""The vLLM plugin: models whose blocks differ in size; small, as every engine process loads it."""


def register() -> None:
    """Make the model types known to transformers and vLLM; entry point ``vllm.general_plugins``.

    vLLM calls it in every process, more than once in some: it changes nothing the second time.
    """
    from vllm import ModelRegistry

    from autocompress_vllm.config import ARCHITECTURE, register_configs

    register_configs()
    if ARCHITECTURE not in ModelRegistry.get_supported_archs():
        # As text, so that the model and with it the engine's layers load where they are needed.
        ModelRegistry.register_model(ARCHITECTURE, f"autocompress_vllm.model:{ARCHITECTURE}")
