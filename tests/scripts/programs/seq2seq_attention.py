# ruff: noqa: E741, N806
"""Reverse sequences: a bidirectional encoder of packed sequences, additive attention, teacher forcing."""

import random
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader, Dataset, RandomSampler

torch.set_default_dtype(torch.float64)
torch.manual_seed(2)
random.seed(2)
PAD, SOS, EOS, V, H = 0, 1, 2, 12, 10
device = torch.device("cpu")


class EncoderRNN(nn.Module):
    def __init__(self, input_size, hidden_size, dropout_p=0.0):
        super().__init__()
        self.hidden_size = hidden_size
        self.embedding = nn.Embedding(input_size, hidden_size, padding_idx=PAD)
        self.gru = nn.GRU(hidden_size, hidden_size, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(dropout_p)

    def forward(self, input, lengths):
        e = pack_padded_sequence(
            self.dropout(self.embedding(input)), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        output, hidden = self.gru(e)
        output, _ = pad_packed_sequence(output, batch_first=True, total_length=input.size(1))
        output = output[..., : self.hidden_size] + output[..., self.hidden_size :]
        return output, hidden.sum(0, keepdim=True)


class BahdanauAttention(nn.Module):
    def __init__(self, hidden_size):
        super().__init__()
        self.Wa, self.Ua, self.Va = (
            nn.Linear(hidden_size, hidden_size),
            nn.Linear(hidden_size, hidden_size),
            nn.Linear(hidden_size, 1),
        )

    def forward(self, query, keys, mask):
        scores = self.Va(torch.tanh(self.Wa(query) + self.Ua(keys))).squeeze(2).unsqueeze(1)
        scores.masked_fill_(mask.unsqueeze(1), -float("inf"))
        weights = F.softmax(scores, dim=-1)
        return torch.bmm(weights, keys), weights


class AttnDecoderRNN(nn.Module):
    def __init__(self, hidden_size, output_size):
        super().__init__()
        self.embedding = nn.Embedding(output_size, hidden_size)
        self.attention = BahdanauAttention(hidden_size)
        self.gru = nn.GRUCell(2 * hidden_size, hidden_size)
        self.out = nn.Linear(hidden_size, output_size)

    def forward(self, enc, h, mask, target=None, ratio=0.5, max_len=8):
        B = enc.size(0)
        inp = torch.empty(B, 1, dtype=torch.long, device=device).fill_(SOS)
        h = h.squeeze(0)
        outs, atts = [], []
        for i in range(max_len if target is None else target.size(1)):
            ctx, w = self.attention(h.unsqueeze(1), enc, mask)
            h = self.gru(torch.cat((self.embedding(inp), ctx), dim=2).squeeze(1), h)
            o = self.out(h)
            outs.append(o)
            atts.append(w)
            if target is not None and random.random() < ratio:
                inp = target[:, i].unsqueeze(1)
            else:
                _, topi = o.unsqueeze(1).topk(1)
                inp = topi.squeeze(-1).detach()
        return F.log_softmax(torch.stack(outs, 1), dim=-1), h, torch.cat(atts, dim=1)


class Pairs(Dataset):
    def __init__(self, n):
        self.d = [[random.randrange(3, V) for _ in range(random.randint(2, 6))] for _ in range(n)]

    def __len__(self):
        return len(self.d)

    def __getitem__(self, i):
        s = self.d[i]
        return torch.LongTensor([*s, EOS]), torch.tensor([*s[::-1], EOS], dtype=torch.long)


def collate(batch, pad):
    a, b = zip(*batch, strict=True)
    return (
        pad_sequence(a, batch_first=True, padding_value=pad),
        torch.as_tensor([len(s) for s in a]),
        pad_sequence(b, True, pad),
    )


ds = Pairs(40)
loader = DataLoader(ds, batch_size=8, sampler=RandomSampler(ds), collate_fn=partial(collate, pad=PAD))
enc, dec = EncoderRNN(V, H).to(device), AttnDecoderRNN(H, V).to(device)
for m in (enc, dec):
    for n, p in m.named_parameters():
        if "weight" in n:
            nn.init.xavier_uniform_(p) if p.dim() > 1 else nn.init.ones_(p)
        else:
            nn.init.zeros_(p)
print(enc, dec, sep="\n")
eo, do = optim.Adam(enc.parameters(), lr=0.01), optim.SGD(dec.parameters(), lr=0.5, momentum=0.9, nesterov=True)
crit = nn.NLLLoss(ignore_index=PAD)
sch = optim.lr_scheduler.ReduceLROnPlateau(do, "min", factor=0.5, patience=1, threshold=1e-1)
for epoch in range(5):
    tot = 0
    for x, l, y in loader:
        eo.zero_grad()
        do.zero_grad()
        out, h = enc(x, l)
        lp, _, att = dec(out, h, x == PAD, y)
        loss = crit(lp.view(-1, lp.size(-1)), y.view(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(list(enc.parameters()) + list(dec.parameters()), 1.0, foreach=False)
        eo.step()
        do.step()
        tot += loss.item()
        print(f"{loss.item():.12f} {att[0, 0].max().item():.12f}")
    sch.step(tot / len(loader))
    print(epoch, tot / len(loader), do.param_groups[0]["lr"], sorted(sch.state_dict().items()))
with torch.no_grad():
    enc.eval()
    dec.eval()
    x, l, y = collate([ds[0], ds[1]], PAD)
    out, h = enc(x, l)
    lp, _, att = dec(out, h, x.eq(PAD))
    print(lp.argmax(-1).tolist(), att.shape, att.sum(-1)[0].tolist())
print(enc.embedding.weight[0].abs().sum().item(), list(enc.state_dict()))
