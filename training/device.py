"""Where and how the network computes: settings come in, a torch device and its precision come out."""

from __future__ import annotations

import torch

from rolit_env.errors import ConfigError
from training.config import TrainConfig
from training.distributed import local_rank


def pick_device(config: TrainConfig) -> torch.device:
    """Return the device that the settings ask for. Raises `ConfigError` for one that this machine does not have."""
    wanted = config.device
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    if wanted == "cuda":
        wanted = f"cuda:{local_rank()}"  # each process of torchrun has a GPU of its own
    try:
        device = torch.device(wanted)
        torch.ones(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # the last two: no CUDA in this torch, no data
        reason = str(error).splitlines()[0]
        raise ConfigError(
            f"device={config.device!r} can't be used here ({reason}); allowed are auto, cpu, and GPUs present"
        ) from None
    return device


def autocast(config: TrainConfig, device: torch.device) -> torch.autocast:
    """Return the context in which the network runs: bfloat16 for an MLP, where the settings and the device want it."""
    wanted = config.bfloat16 == "always" or (config.bfloat16 == "auto" and computes_bfloat16(device))
    enabled = wanted and config.network == "mlp"
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=enabled)


def computes_bfloat16(device: torch.device) -> bool:
    """Tell whether a device multiplies bfloat16 in hardware (elsewhere it is emulated, and slower than float32)."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16") or capabilities.get("bf16"))
