"""Attention layers and transformers, compared with torch's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch

import retrograd as rg
from tests.nn.twins import assert_alike, twins
from tests.parity import attempt, check_message, parity


def x(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def build(text: str) -> Any:
    return lambda nn: eval(f"nn.{text}", {"nn": nn})


CAUSAL = np.triu(np.ones((5, 5), dtype=bool), 1)
PADDING = np.array([[False] * 5, [False] * 3 + [True] * 2])


@pytest.mark.parametrize(
    ("form", "shapes"),
    [
        ("8, 2", [(5, 2, 8), (5, 2, 8), (5, 2, 8)]),
        ("8, 2, bias=False", [(5, 2, 8), (4, 2, 8), (4, 2, 8)]),
        ("8, 4, batch_first=True", [(2, 5, 8), (2, 4, 8), (2, 4, 8)]),
        ("8, 2, kdim=3, vdim=6", [(5, 2, 8), (4, 2, 3), (4, 2, 6)]),
        ("8, 2, add_bias_kv=True", [(5, 2, 8), (4, 2, 8), (4, 2, 8)]),
        ("8, 2, add_zero_attn=True, batch_first=True", [(2, 5, 8), (2, 4, 8), (2, 4, 8)]),
        ("8, 2", [(5, 8), (4, 8), (4, 8)]),
    ],
)
@pytest.mark.parametrize("options", [{}, {"need_weights": False}, {"average_attn_weights": False}])
def test_multihead_attention_agrees_with_torch(
    form: str, shapes: list[tuple[int, ...]], options: dict[str, Any]
) -> None:
    arrays = [x(*shape, seed=number) for number, shape in enumerate(shapes)]
    assert_alike(build(f"MultiheadAttention({form})"), *arrays, second=False, **options)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize(
    "masks",
    [
        {"attn_mask": CAUSAL},
        {"key_padding_mask": PADDING},
        {"attn_mask": CAUSAL, "key_padding_mask": PADDING},
        {"attn_mask": x(5, 5)},
        {"attn_mask": x(4, 5, 5), "key_padding_mask": np.where(PADDING, -np.inf, 0.0)},
    ],
)
@pytest.mark.parametrize("form", ["8, 2", "8, 2, add_bias_kv=True, add_zero_attn=True"])
def test_masks_of_multihead_attention(masks: dict[str, Any], form: str, need_weights: bool) -> None:
    same = x(5, 2, 8)
    assert_alike(
        build(f"MultiheadAttention({form})"), same, same, same, second=False, need_weights=need_weights, **masks
    )


@pytest.mark.parametrize("need_weights", [True, False])
def test_is_causal_hint_of_multihead_attention(need_weights: bool) -> None:
    same = x(5, 2, 8)
    options = {"attn_mask": CAUSAL, "is_causal": True, "need_weights": need_weights, "second": False}
    assert_alike(build("MultiheadAttention(8, 2)"), same, same, same, **options)


def test_second_derivatives_of_multihead_attention() -> None:
    assert_alike(build("MultiheadAttention(4, 2)"), x(3, 2, 4), x(3, 2, 4, seed=1), x(3, 2, 4, seed=2))


def test_self_attention_gradients_through_the_joint_projection() -> None:
    theirs, ours = twins(build("MultiheadAttention(8, 2)"))
    expected, got = torch.tensor(x(5, 2, 8), requires_grad=True), rg.tensor(x(5, 2, 8), requires_grad=True)
    theirs(expected, expected, expected)[0].sin().sum().backward()
    ours(got, got, got)[0].sin().sum().backward()
    np.testing.assert_allclose(got.grad.numpy(), expected.grad.numpy(), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.in_proj_weight.grad.numpy(), theirs.in_proj_weight.grad.numpy(), atol=1e-12)


def test_masks_of_different_dtypes_warn() -> None:
    net = rg.nn.MultiheadAttention(4, 2)
    same = rg.ones(3, 1, 4)
    with pytest.warns(UserWarning, match="mismatched"):
        net(same, same, same, attn_mask=rg.zeros(3, 3), key_padding_mask=rg.zeros(1, 3, dtype=rg.bool))


@parity
def test_multihead_attention_refuses_wrong_inputs(m: Any) -> Any:
    net, ones = m.nn.MultiheadAttention(4, 2), m.ones
    good = (ones(3, 1, 4),) * 3
    return [
        attempt(lambda: net(ones(3, 1, 4, 1), *good[1:])),
        attempt(lambda: net(*good, is_causal=True)),
        attempt(lambda: net(*good, attn_mask=m.zeros(2, 2))),
        attempt(lambda: net(ones(3, 2, 4), *good[1:])),
    ]


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
def test_errors_about_masks_are_of_torchs_class(batched: bool, need_weights: bool) -> None:
    def errors(m: Any) -> list[type[Exception]]:
        net, x = m.nn.MultiheadAttention(4, 2), m.ones(3, 2, 4) if batched else m.ones(3, 4)
        found = []
        for name, shape in [
            ("attn_mask", (3,)),
            ("attn_mask", (3, 2)),
            ("attn_mask", (2, 2, 3, 3)),
            ("key_padding_mask", (2, 2)),
            ("key_padding_mask", (2,)),
            ("key_padding_mask", (2, 3, 1)),
        ]:
            with pytest.raises((AssertionError, RuntimeError)) as caught:
                net(x, x, x, need_weights=need_weights, **{name: m.zeros(shape)})
            found.append(caught.type)
        return found

    assert errors(rg) == errors(torch)


def test_error_names_the_batch_sizes_that_differ() -> None:
    for batch_first, batch in ((False, 1), (True, 0)):
        net = rg.nn.MultiheadAttention(4, 2, batch_first=batch_first)
        with pytest.raises(RuntimeError, match=rf"\[3, 2, 4\] and .* \[5, 1, 4\] differ .* dimension {batch} "):
            net(rg.ones(3, 2, 4), rg.ones(5, 1, 4), rg.ones(5, 1, 4))


def test_dropout_of_attention_weights() -> None:
    rg.manual_seed(0)
    net = rg.nn.MultiheadAttention(4, 2, dropout=0.5)
    same = rg.ones(50, 1, 4)
    _, weights = net(same, same, same, average_attn_weights=False)
    assert 0.4 < (weights == 0).to(rg.float32).mean().item() < 0.6
    net.eval()
    assert (net(same, same, same)[1] > 0).all()


ENCODERS = [
    "TransformerEncoderLayer(8, 2, 16, dropout=0.0)",
    "TransformerEncoderLayer(8, 2, 16, dropout=0.0, norm_first=True, activation='gelu', bias=False)",
    "TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)",
    "TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), 2, nn.LayerNorm(8))",
]


@pytest.mark.parametrize("text", ENCODERS)
def test_transformer_encoders_agree_with_torch(text: str) -> None:
    assert_alike(build(text), x(5, 2, 8), second=False)
    assert_alike(build(text), x(5, 5, 8) if "batch_first" in text else x(5, 2, 8), CAUSAL, second=False)


@pytest.mark.parametrize(
    "text",
    [
        "TransformerDecoderLayer(8, 2, 16, dropout=0.0)",
        "TransformerDecoderLayer(8, 2, 16, dropout=0.0, norm_first=True, batch_first=True, layer_norm_eps=1e-3)",
        "TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0), 2)",
        "Transformer(8, 2, 1, 1, 16, dropout=0.0)",
    ],
)
def test_transformer_decoders_agree_with_torch(text: str) -> None:
    assert_alike(build(text), x(5, 5, 8), x(5, 5, 8, seed=1), second=False)


def test_transformer_with_masks() -> None:
    mask = np.triu(np.full((5, 5), -np.inf), 1)
    assert_alike(
        build("Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True)"),
        x(2, 5, 8),
        x(2, 5, 8, seed=1),
        second=False,
        tgt_mask=mask,
        src_key_padding_mask=np.where(PADDING, -np.inf, 0.0),
        memory_key_padding_mask=np.where(PADDING, -np.inf, 0.0),
    )


NO_PADDING = {
    "left aligned": {},
    "odd heads": {"nhead": 1},
    "not batch first": {"batch_first": False},
    "norm first": {"norm_first": True},
    "another activation": {"activation": "sin"},
    "gelu": {"activation": "gelu"},
    "no bias": {"bias": False},
    "in training": {"training": True},
    "recorded": {"recorded": True},
    "frozen": {"recorded": True, "frozen": True},
    "an input that requires grad": {"recorded": True, "frozen": True, "wanted": True},
    "in the middle": {"padding": [[False, True, False], [False, False, True]]},
    "two masks": {"mask": True},
    "as numbers": {"numbers": True},
    "not wanted": {"enable_nested_tensor": False},
    "without a norm": {"norm": False},
}


@pytest.mark.parametrize("case", NO_PADDING)
def test_encoders_skip_padding_in_evaluation(case: str) -> None:
    """Padded positions are zeros in the cases where torch uses nested tensors, and ordinary outputs otherwise."""
    given = dict(NO_PADDING[case])

    def program(m: Any) -> Any:
        own = {key: given[key] for key in ("batch_first", "norm_first", "activation", "bias") if key in given}
        options = {"dropout": 0.0, "batch_first": True, "dtype": m.float64} | own
        if own.get("activation") == "sin":
            options["activation"] = m.sin
        layer = m.nn.TransformerEncoderLayer(4, given.get("nhead", 2), 8, **options)
        norm = m.nn.LayerNorm(4, dtype=m.float64) if given.get("norm", True) else None
        net = m.nn.TransformerEncoder(layer, 2, norm, given.get("enable_nested_tensor", True))
        rng = np.random.default_rng(0)
        for parameter in net.parameters():
            with m.no_grad():
                parameter.copy_(m.tensor(rng.normal(size=tuple(parameter.shape))))
            parameter.requires_grad_(not given.get("frozen", False))
        net.train(given.get("training", False))
        x = m.tensor(rng.normal(size=(2, 3, 4)), requires_grad=given.get("wanted", False))
        padding = m.tensor(given.get("padding", [[False, True, True], [False, False, True]]))
        if given.get("numbers"):
            padding = m.zeros(2, 3, dtype=m.float64).masked_fill(padding, -np.inf)
        if not options["batch_first"]:
            x = x.transpose(0, 1)
        mask = m.zeros(3, 3, dtype=m.bool) if given.get("mask") else None
        with m.set_grad_enabled(given.get("recorded", False)):
            return net(x, mask, padding).detach().numpy()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_allclose(program(rg), program(torch), rtol=1e-9, atol=1e-12)


@parity
def test_transformer_layers_with_overridden_blocks(m: Any) -> Any:
    """By a layer that keeps the attention weights, and by one with its own ``forward``."""

    class Watched(m.nn.TransformerEncoderLayer):
        def _sa_block(self, x: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Any:
            self.seen = (key_padding_mask is not None, is_causal)
            x, self.weights = self.self_attn(x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask)
            return 2 * self.dropout1(x)

    class Gated(m.nn.TransformerEncoderLayer):
        def forward(self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None) -> Any:
            x = src + 0.5 * self._sa_block(self.norm1(src), src_mask, src_key_padding_mask)
            return x + self._ff_block(self.norm2(x))

    class Decoding(m.nn.TransformerDecoderLayer):
        def _mha_block(self, x: Any, mem: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Any:
            self.crossed = self.multihead_attn(x, mem, mem)[0]
            return self.dropout2(3 * self.crossed)

        def _ff_block(self, x: Any) -> Any:
            return self.dropout3(self.linear2(self.linear1(x).square()))

    rng = np.random.default_rng(0)
    x, memory = (m.tensor(rng.normal(size=(2, 3, 4))) for _ in range(2))
    made = [kind(4, 2, 8, dropout=0.0, batch_first=True, dtype=m.float64) for kind in (Watched, Gated, Decoding)]
    for layer in made:
        for parameter in layer.parameters():
            with m.no_grad():
                parameter.copy_(m.tensor(rng.normal(size=tuple(parameter.shape))))
    watched, gated, decoding = made
    padding = m.tensor([[False, False, True], [False, False, False]])
    results = [watched(x, None, padding), gated(x, None, padding), decoding(x, memory)]
    return [results, watched.seen, watched.weights, decoding.crossed]


@parity
def test_transformer_structure_and_errors(m: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = m.nn.Transformer(8, 2, 1, 1, 16)
    layer = m.nn.TransformerEncoderLayer(8, 2, 16, activation=m.nn.functional.gelu)
    return [
        net.generate_square_subsequent_mask(3),
        layer.activation is m.nn.functional.gelu,
        attempt(lambda: net(m.ones(5, 2, 8), m.ones(5, 3, 8))),
        attempt(lambda: net(m.ones(5, 2, 7), m.ones(5, 2, 7))),
        attempt(lambda: m.nn.TransformerEncoderLayer(8, 2, activation="sin")),
    ]


def test_encoder_layers_are_copies() -> None:
    encoder = rg.nn.TransformerEncoder(rg.nn.TransformerEncoderLayer(8, 2, 16), 2)
    first, second = encoder.layers
    assert first.linear1.weight is not second.linear1.weight
    assert (first.linear1.weight == second.linear1.weight).all()


def functional_call(m: Any, separate: bool, **options: Any) -> Any:
    """Call the functional form with given weights and return its results and the gradients of all operands."""
    rng = np.random.default_rng(0)

    def t(*shape: int) -> Any:
        return m.tensor(rng.normal(size=shape), requires_grad=True)

    kdim, vdim = (3, 5) if separate else (4, 4)
    inputs = [t(3, 2, 4), t(6, 2, kdim), t(6, 2, vdim)]
    weights: dict[str, Any] = {"in_proj_weight": None, "in_proj_bias": t(12), "out_proj_weight": t(4, 4)}
    if separate:
        weights.update(q_proj_weight=t(4, 4), k_proj_weight=t(4, kdim), v_proj_weight=t(4, vdim))
        options["use_separate_proj_weight"] = True
    else:
        weights["in_proj_weight"] = t(12, 4)
    more = {"bias_k": None, "bias_v": None, "add_zero_attn": False, "dropout_p": 0.0, "out_proj_bias": None}
    if options.pop("bias_kv", False):
        more.update(bias_k=t(1, 1, 4), bias_v=t(1, 1, 4))
    if options.pop("static", False):
        options.update(static_k=t(4, 6, 2), static_v=t(4, 6, 2))
    if "attn_mask" in options:
        options["attn_mask"] = m.tensor(options["attn_mask"])
    output, attention = m.nn.functional.multi_head_attention_forward(*inputs, 4, 2, **{**more, **weights, **options})
    output.sin().sum().backward()
    gradients = [leaf.grad for leaf in (*inputs, *weights.values()) if leaf is not None]
    return [output, attention, *gradients]


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"need_weights": False},
        {"add_zero_attn": True, "average_attn_weights": False},
        {"bias_kv": True},
        {"static": True},
        {"attn_mask": np.triu(np.full((3, 6), -np.inf), 1)},
    ],
    ids=str,
)
def test_functional_multihead_attention_agrees_with_torch(separate: bool, options: dict[str, Any]) -> None:
    parity(lambda m: functional_call(m, separate, **options))()


@parity
def test_functional_multihead_attention_refuses_wrong_arguments(m: Any) -> Any:
    def refused(**changed: Any) -> bool:
        x, w = m.ones(3, 2, 4), m.ones(12, 4)
        none = dict.fromkeys(("in_proj_bias", "bias_k", "bias_v", "out_proj_bias"))
        sizes = {"embed_dim_to_check": 4, "num_heads": 2, "add_zero_attn": False, "dropout_p": 0.0}
        given = {
            "query": x,
            "key": x,
            "value": x,
            "in_proj_weight": w,
            "out_proj_weight": m.ones(4, 4),
            **none,
            **sizes,
        }
        try:
            m.nn.functional.multi_head_attention_forward(**{**given, **changed})
        except (AssertionError, RuntimeError):
            return True
        return False

    return [
        refused(),
        refused(embed_dim_to_check=5),
        refused(num_heads=3),
        refused(use_separate_proj_weight=True),
        refused(key=m.ones(3, 4)),
        refused(value=m.ones(5, 2, 4)),
        refused(is_causal=True),
        refused(attn_mask=m.zeros(2, 2)),
        refused(static_k=m.ones(4, 3, 2), static_v=m.ones(4, 3, 2)),
        refused(static_k=m.ones(3, 3, 2)),
        refused(static_v=m.ones(4, 3, 3)),
        refused(static_k=m.ones(4, 3, 2), bias_k=m.ones(1, 1, 4), bias_v=m.ones(1, 1, 4)),
        refused(static_v=m.ones(4, 3, 2), bias_k=m.ones(1, 1, 4), bias_v=m.ones(1, 1, 4)),
    ]


@pytest.mark.parametrize(
    ("static", "words"),
    [
        ({"static_k": rg.ones(3, 3, 2)}, ["static_k", "[4, S, 2]", "[3, 3, 2]"]),
        ({"static_v": rg.ones(4, 3, 3)}, ["static_v", "[4, S, 2]", "[4, 3, 3]"]),
    ],
)
def test_functional_multihead_attention_names_the_wrong_shape(static: dict[str, Any], words: list[str]) -> None:
    x, weight = rg.ones(3, 2, 4), rg.ones(12, 4)
    check_message(
        lambda: rg.nn.functional.multi_head_attention_forward(
            x, x, x, 4, 2, weight, None, None, None, False, 0.0, rg.ones(4, 4), None, **static
        ),
        words,
    )
