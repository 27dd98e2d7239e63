"""Learn to reverse sequences of different lengths with an encoder, padding masks and a warm-up."""

import math

import torch
from torch import Tensor, nn
from torch.nn import TransformerEncoder, TransformerEncoderLayer
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, Dataset

PAD = 0


class Reversed(Dataset):
    def __init__(self, count: int):
        g = torch.Generator().manual_seed(0)
        self.lengths = torch.randint(3, 8, (count,), generator=g).tolist()
        self.rows = [torch.randint(1, 9, (n,), generator=g) for n in self.lengths]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int):
        return self.rows[i], self.rows[i].flip(0)


def collate(batch):
    xs, ys = zip(*batch, strict=True)
    pad = nn.utils.rnn.pad_sequence
    return pad(xs, batch_first=True, padding_value=PAD), pad(ys, batch_first=True, padding_value=PAD)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model: int, max_len: int = 32):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(1, max_len, d_model)
        pe[0, :, 0::2] = torch.sin(position * div_term)
        pe[0, :, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.pe[:, : x.size(1)]


class Reverser(nn.Module):
    def __init__(self, vocabulary: int = 9, d_model: int = 16):
        super().__init__()
        self.d_model = d_model
        self.embed = nn.Embedding(vocabulary, d_model, padding_idx=PAD)
        self.pos = PositionalEncoding(d_model)
        layer = TransformerEncoderLayer(d_model, 4, 32, dropout=0.0, activation="gelu", batch_first=True)
        self.encoder = TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
        self.head = nn.Linear(d_model, vocabulary)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def forward(self, src: Tensor, src_mask: Tensor | None = None) -> Tensor:
        x = self.pos(self.embed(src) * math.sqrt(self.d_model))
        x = self.encoder(x, mask=src_mask, src_key_padding_mask=(src == PAD))
        return self.head(x)


torch.manual_seed(2)
loader = DataLoader(Reversed(96), batch_size=24, shuffle=True, collate_fn=collate)
model = Reverser()
criterion = nn.CrossEntropyLoss(ignore_index=PAD, label_smoothing=0.1)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, betas=(0.9, 0.98), weight_decay=0.01)
warmup = 6
scheduler = LambdaLR(optimizer, lambda step: min((step + 1) / warmup, math.sqrt(warmup / (step + 1))))

for epoch in range(3):
    model.train()
    for src, tgt in loader:
        logits = model(src)
        loss = criterion(logits.reshape(-1, logits.size(-1)), tgt.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        scheduler.step()
    print(f"epoch {epoch}: loss {loss.item():.5f} lr {optimizer.param_groups[0]['lr']:.6f}")

model.eval()
mask = nn.Transformer.generate_square_subsequent_mask(6)
print(mask[0])
with torch.inference_mode():
    out = model(torch.tensor([[1, 2, 3, 4, 5, PAD]]), mask)
print(out.argmax(-1), out[0, 0])
