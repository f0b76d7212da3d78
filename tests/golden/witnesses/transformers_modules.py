"""Attention modules of `transformers`: made small, made functions of q, k and v, and read."""

from __future__ import annotations

import numpy as np

from witnesses.common import Arrays


def config_for(config_class: type, heads: int, head_dim: int, **options):
    """Returns a small configuration with eager attention."""
    return config_class(
        hidden_size=options.pop("hidden_size", heads * head_dim),
        num_attention_heads=heads,
        num_key_value_heads=options.pop("num_key_value_heads", heads),
        head_dim=head_dim,
        attention_dropout=0.0,
        attn_implementation="eager",
        **options,
    )


def t5_attention(heads: int, head_dim: int, buckets: int, *, is_decoder: bool):
    """Returns a T5Attention with a relative bias."""
    from transformers.models.t5.modeling_t5 import T5Attention, T5Config

    config = T5Config(
        d_model=heads * head_dim,
        d_kv=head_dim,
        num_heads=heads,
        relative_attention_num_buckets=buckets,
        dropout_rate=0.0,
        is_decoder=is_decoder,
        attn_implementation="eager",
    )
    return T5Attention(config, has_relative_attention_bias=True, layer_idx=0).double().eval()


def without_projections(
    module, inputs: tuple[str, ...], output: str, widths: tuple[int, ...]
) -> None:
    """Replaces the projections: the input is what they would give, side by side.

    Args:
        module: becomes float64.
        inputs: the names of its input projections.
        output: that of its output projection.
        widths: the share of the input that each projection hands on.
    """
    import torch

    class Slice(torch.nn.Module):
        def __init__(self, start: int, stop: int):
            super().__init__()
            self.start, self.stop = start, stop

        def forward(self, x):
            whole = x.shape[-1] // sum(widths)
            return x[..., self.start * whole : self.stop * whole].contiguous()

    start = 0
    for name, width in zip(inputs, widths, strict=True):
        setattr(module, name, Slice(start, start + width))
        start += width
    setattr(module, output, torch.nn.Identity())
    module.double().eval()


def bare_rotation(x, head_dim: int):
    """Returns the (cos, sin) of no rotation for x [b t d]."""
    import torch

    ones = torch.ones(*x.shape[:2], head_dim, dtype=x.dtype)
    return ones, torch.zeros_like(ones)


def additive_mask(visible: np.ndarray):
    """Returns 0 where visible, else −∞, of rank 4: what eager attention adds to the scores."""
    import torch

    visible = torch.from_numpy(np.array(visible))
    while visible.ndim < 4:
        visible = visible[None]
    return torch.zeros(visible.shape, dtype=torch.float64).masked_fill(~visible, -torch.inf)


def drawn(module, seed: int):
    """Gives a module normal parameters with float32 values, makes it float64, and returns it."""
    import torch

    random = np.random.default_rng(seed)
    for parameter in module.parameters():
        values = random.normal(size=tuple(parameter.shape)).astype(np.float32) * np.float32(0.3)
        parameter.data = torch.from_numpy(values).double()
    return module.double().eval()


def kernel(linear) -> np.ndarray:
    """Returns a torch layer's weight as ours is laid out, [in out]."""
    return linear.weight.detach().numpy().T.astype(np.float32)


def linears(module, names: dict[str, str]) -> Arrays:
    """Returns "layer.NAME.kernel" (and ".bias") of linear layers, given {our name: their name}."""
    kept = {}
    for ours, theirs in names.items():
        linear = getattr(module, theirs)
        kept[f"layer.{ours}.kernel"] = kernel(linear)
        if linear.bias is not None:
            kept[f"layer.{ours}.bias"] = linear.bias.detach().numpy().astype(np.float32)
    return kept
