"""A character-level recurrent network with a hidden state that is carried over and cut off."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(7)
text = (
    "the rays of light are bent in passing from one medium to another, and the bending is the "
    "greater the more they differ. the colours of the rays are not changed by bending."
)
chars = sorted(set(text))
stoi = {ch: i for i, ch in enumerate(chars)}
itos = {i: ch for ch, i in stoi.items()}
data = torch.tensor([stoi[c] for c in text], dtype=torch.long)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    return data.narrow(0, 0, nbatch * bsz).view(bsz, -1).t().contiguous()


def get_batch(source, i, bptt=10):
    seq_len = min(bptt, len(source) - 1 - i)
    return source[i : i + seq_len], source[i + 1 : i + 1 + seq_len].reshape(-1)


def repackage_hidden(h):
    """Cut the hidden state off from its history."""
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage_hidden(v) for v in h)


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp, nhid, nlayers):
        super().__init__()
        self.encoder = nn.Embedding(ntoken, ninp)
        self.rnn = nn.LSTM(ninp, nhid, nlayers)
        self.decoder = nn.Linear(nhid, ntoken)
        self.nhid, self.nlayers = nhid, nlayers
        self.init_weights()

    def init_weights(self):
        initrange = 0.1
        nn.init.uniform_(self.encoder.weight, -initrange, initrange)
        nn.init.zeros_(self.decoder.bias)
        self.decoder.weight.data.uniform_(-initrange, initrange)

    def forward(self, input, hidden):
        output, hidden = self.rnn(self.encoder(input), hidden)
        return self.decoder(output).view(-1, self.decoder.out_features), hidden

    def init_hidden(self, bsz):
        weight = next(self.parameters())
        return (weight.new_zeros(self.nlayers, bsz, self.nhid), weight.new_zeros(self.nlayers, bsz, self.nhid))


source = batchify(data, 4)
model = RNNModel(len(chars), 12, 24, 2)
optimizer = torch.optim.RMSprop(model.parameters(), lr=5e-3)
criterion = nn.CrossEntropyLoss()

for epoch in range(4):
    model.train()
    total, steps = 0.0, 0
    hidden = model.init_hidden(4)
    for i in range(0, source.size(0) - 1, 10):
        inputs, targets = get_batch(source, i)
        hidden = repackage_hidden(hidden)
        optimizer.zero_grad()
        output, hidden = model(inputs, hidden)
        loss = criterion(output, targets)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        total, steps = total + loss.item(), steps + 1
    print(f"epoch {epoch} loss {total / steps:.5f} ppl {math.exp(total / steps):.4f} norm {norm:.5f}")

model.eval()
with torch.no_grad():
    hidden = model.init_hidden(1)
    token, written = torch.tensor([[stoi["t"]]]), "t"
    for _ in range(30):
        output, hidden = model(token, hidden)
        weights = F.softmax(output[-1] / 0.8, dim=-1)
        token = torch.multinomial(weights, 1).view(1, 1)
        written += itos[token.item()]
print(repr(written))
