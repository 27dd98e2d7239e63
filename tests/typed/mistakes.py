"""Wrong program lines; a type checker must complain about each of them.

``x`` is a tensor, ``rg`` the package, ``F`` its ``nn.functional``.
"""

from __future__ import annotations

MISTAKES = (
    # names
    "x.sumn()",
    "x.requires_grd",
    "x.backwrd()",
    "x.sum_()",
    "x.eig()",
    "rg.expp(x)",
    "rg.float33",
    "rg.linalg.invv(x)",
    "rg.special.erff(x)",
    "F.reluu(x)",
    "x.max(dim=0).vals",
    "rg.return_types.maxx",
    "x.shape.nume()",
    # parameters
    "rg.exp(x, dimm=0)",
    "x.sum(dmi=0)",
    "x.exp(3)",
    "F.relu(x, inplac=True)",
    "rg.linalg.inv(x, 3, 4)",
    "x.exp_(out=x)",
    "x.add(x, alfa=2)",
    "rg.cat([x], x, 1)",
    # missing names and arguments
    "rg.exp()",
    "x.softmax()",
    "F.cross_entropy(x)",
    "x.where(x)",
    "rg.matmul(x)",
    # types
    "rg.exp('a')",
    "rg.exp(2.0)",
    "x.sum(dim='0')",
    "x['a']",
    "x + 'a'",
    "x < None",
    "x.reshape('a')",
    "x.view(None)",
    "rg.cat(x)",
    "rg.stack([x, 'a'])",
    "x.to(3.5)",
    "x.topk('3')",
    "rg.zeros('2')",
    "F.gelu(x, approximate=3)",
    "rg.fft.fft(x, norm='backwards')",
    "rg.add(x, 'a')",
    "rg.linalg.qr(x, mode='full')",
    "F.conv2d(x, x, stride='2')",
    "x.T()",
    "x.shape()",
    "x.clamp(min='0')",
    "rg.tensor([1.0], dtype=3)",
    "rg.ones(2, requires_grd=True)",
    "rg.arange('3')",
    # modules
    "rg.nn.Linear(2)",
    "rg.nn.Linear(3, 2)(x, 4)",
    "rg.nn.ReLU()()",
    "rg.nn.LSTM(3, 2)(x).sum()",
    # results
    "number: int = x.sum()",
    "x.max().values",
    "x.numel().exp()",
    "rg.split(x, 1).exp()",
    "x.shape[0].numel()",
    "x.allclose(x).sum()",
    "x.grad.zero_()",
)
