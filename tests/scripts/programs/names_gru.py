"""Which language does a word come from? Sequences of different lengths, packed."""

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils.data import DataLoader

WORDS = {
    0: ["acqua", "sole", "vento", "libro", "strada", "fiore", "mare", "notte", "giorno", "tempo"],
    1: ["water", "sun", "wind", "book", "street", "flower", "sea", "night", "day", "weather"],
    2: ["wasser", "sonne", "wind", "buch", "strasse", "blume", "meer", "nacht", "tag", "wetter"],
}
PAIRS = [(word, label) for label, words in WORDS.items() for word in words]


def collate(batch):
    words, labels = zip(*batch, strict=True)
    tensors = [torch.tensor([ord(c) - ord("a") + 1 for c in word]) for word in words]
    lengths = torch.tensor([len(t) for t in tensors])
    return pad_sequence(tensors, batch_first=True), lengths, torch.tensor(labels)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(27, 8, padding_idx=0)
        self.gru = nn.GRU(8, 12, batch_first=True, bidirectional=True)
        self.attention = nn.Linear(24, 1)
        self.fc = nn.Linear(24, 3)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.embedding(x), lengths.cpu(), batch_first=True, enforce_sorted=False)
        output, _ = self.gru(packed)
        output, _ = pad_packed_sequence(output, batch_first=True)
        scores = self.attention(output).squeeze(-1)
        mask = torch.arange(output.size(1))[None, :] >= lengths[:, None]
        weights = torch.softmax(scores.masked_fill(mask, float("-inf")), dim=1)
        return self.fc(torch.bmm(weights.unsqueeze(1), output).squeeze(1))


torch.manual_seed(6)
loader = DataLoader(PAIRS, batch_size=10, shuffle=True, collate_fn=collate)
model = Classifier()
criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 0.8, 1.2]))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(4):
    for x, lengths, labels in loader:
        loss = criterion(model(x, lengths), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.5f}")

model.eval()
x, lengths, labels = collate(PAIRS)
with torch.no_grad():
    probabilities = model(x, lengths).softmax(-1)
print((probabilities.argmax(-1) == labels).float().mean().item(), probabilities[0])
