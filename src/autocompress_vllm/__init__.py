"""The vLLM plugin: models whose blocks differ in size; small, as every engine process loads it."""


def register() -> None:
    """Make the model types known to transformers and vLLM; entry point ``vllm.general_plugins``.

    vLLM calls it in every process, more than once in some: it changes nothing the second time.
    """
    from vllm import ModelRegistry

    from autocompress_vllm.config import ARCHITECTURE, TORCH_ARCHITECTURE, register_configs

    register_configs()
    for name in (ARCHITECTURE, TORCH_ARCHITECTURE):
        if name not in ModelRegistry.get_supported_archs():
            # As text, so that the engine's layers load only where a model is built.
            ModelRegistry.register_model(name, f"autocompress_vllm.model:{ARCHITECTURE}")
