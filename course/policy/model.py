"""The tiny policy's network: a decoder of the Llama family, whole, in one module.

Root-mean-square norms, rotary positions, SwiGLU, tied embeddings, no biases. Its weights carry the
names that ``transformers.LlamaForCausalLM`` gives them, so they load there and back unchanged. It
knows tokens only: text is the tokenizer's, files are ``model_files``'s, chance is the sampler's.

Shapes: B rows, T tokens, C width, H heads, D = C / H, V vocabulary.

Sources: Touvron et al. 2023 (arXiv:2302.13971); Su et al. 2021 (arXiv:2104.09864); Shazeer 2020
(arXiv:2002.05202); Zhang and Sennrich 2019 (arXiv:1910.07467).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
"""Mixes values by attention: (layer, q, k, v), each (B, H, T, D), to (B, H, T, D)."""


@dataclass(frozen=True)
class ModelConfig:
    """The shape of a tiny policy; the fields are named as in a Llama's ``config.json``."""

    vocab_size: int
    hidden_size: int = 128
    intermediate_size: int = 384
    num_hidden_layers: int = 4
    num_attention_heads: int = 4
    max_position_embeddings: int = 256
    """The context: prompt and completion together hold at most this many tokens."""
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10_000.0


def causal(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attend to the tokens up to and including one's own: what a forward pass without a cache does.

    Padding needs no mask when it stands on the right: nothing before it can see it.
    """
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class RMSNorm(nn.Module):
    """Scale each token's vector to unit root-mean-square, then by a learned weight."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Keep the shape, (..., C)."""
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


class Attention(nn.Module):
    """Multi-head attention with rotary positions."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.layer, self.heads = layer, config.num_attention_heads
        width = config.hidden_size
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, width, bias=False)
        self.v_proj = nn.Linear(width, width, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, attend: Attend) -> Tensor:
        """Mix (B, T, C) across tokens; cos and sin broadcast to (B, H, T, D)."""
        B, T, C = x.shape
        q, k, v = (
            project(x).view(B, T, self.heads, -1).transpose(1, 2)  # (B, H, T, D)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        mixed = attend(self.layer, _rotate(q, cos, sin), _rotate(k, cos, sin), v)
        return cast(Tensor, self.o_proj(mixed.transpose(1, 2).reshape(B, T, C)))


class MLP(nn.Module):
    """The SwiGLU feed-forward block."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(width, inner, bias=False)
        self.up_proj = nn.Linear(width, inner, bias=False)
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Keep the shape, (..., C); tokens do not meet."""
        return cast(Tensor, self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x)))


class Layer(nn.Module):
    """One block: attention, then feed-forward, each added to the residual stream."""

    def __init__(self, config: ModelConfig, layer: int) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config, layer)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = MLP(config)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, attend: Attend) -> Tensor:
        """Keep the shape, (B, T, C)."""
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, attend)
        return x + cast(Tensor, self.mlp(self.post_attention_layernorm(x)))


class Body(nn.Module):
    """Embedding, blocks and the last norm; transformers calls this part ``model``."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(
            Layer(config, number) for number in range(config.num_hidden_layers)
        )
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)


class TinyModel(nn.Module):
    """The network: tokens in, the next token's logits out."""

    cos: Tensor  # (max positions, D)
    sin: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.model = Body(config)
        cos, sin = _rotary_table(config)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def hidden(
        self, tokens: Tensor, positions: Tensor | None = None, attend: Attend = causal
    ) -> Tensor:
        """Run the blocks.

        Args:
            tokens: (B, T) int64.
            positions: (B, T) or (T,) int64, where each token stands; None counts from 0.
            attend: how tokens see each other; a sampler passes one that has a cache.
        Returns: (B, T, C), after the last norm.
        """
        if positions is None:
            cos, sin = self.cos[: tokens.shape[1]], self.sin[: tokens.shape[1]]  # (T, D)
        else:
            cos, sin = self.cos[positions], self.sin[positions]  # (T, D) or (B, T, D)
            if positions.dim() == 2:
                cos, sin = cos[:, None], sin[:, None]  # (B, 1, T, D): the same for every head
        x = self.model.embed_tokens(tokens)
        for layer in self.model.layers:
            x = layer(x, cos, sin, attend)
        return cast(Tensor, self.model.norm(x))

    def logits(self, hidden: Tensor) -> Tensor:
        """Turn (..., C) into (..., V) with the tied embedding."""
        return F.linear(hidden, self.model.embed_tokens.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of every next token: (B, T) int64 to (B, T, V)."""
        return self.logits(self.hidden(tokens))

    def initialise(self, generator: torch.Generator) -> None:
        """Draw fresh weights; what writes into the residual stream starts at half size."""
        for name, weight in self.named_parameters():
            if weight.dim() == 1:
                nn.init.ones_(weight)
                continue
            scale = 0.02 if "embed_tokens" in name else weight.shape[1] ** -0.5
            if "o_proj" in name or "down_proj" in name:
                scale /= 2
            nn.init.normal_(weight, std=scale, generator=generator)


def _rotary_table(config: ModelConfig) -> tuple[Tensor, Tensor]:
    half = config.hidden_size // config.num_attention_heads // 2
    rates = 1.0 / config.rope_theta ** (torch.arange(half) / half)  # (D/2,)
    angles = torch.arange(config.max_position_embeddings)[:, None] * rates  # (positions, D/2)
    return torch.cat([angles.cos()] * 2, -1), torch.cat([angles.sin()] * 2, -1)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn each pair of features by its position's angle; pairs are (i, i + D/2), as in Llama."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin
