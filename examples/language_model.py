"""Teach a small transformer to write like Newton: a language model that reads one character at a time.

The model sees up to 32 characters of Isaac Newton's *Opticks* (1730) and says which character comes next, at every
position at once. It is a transformer decoder as in GPT (Radford et al., 2018): characters and their positions become
vectors, blocks of causal self-attention and small perceptrons transform them, and a linear layer turns each into scores
for the next character. The last tenth of the book is never trained on; the loss there is what counts.

    python examples/language_model.py
    python examples/language_model.py --seed 3 --prompt "The Sun"
    python examples/language_model.py --context 64 --width 128 --layers 4 --lr 0.004 --steps 2000 --seconds 900
"""

from __future__ import annotations

import argparse
import gzip
import sys
import time
from pathlib import Path

import numpy as np

import retrograd as rg
from _progress import Progress
from retrograd import nn
from retrograd.nn import functional as F

TEXT = Path(__file__).parent / "data" / "opticks.txt.gz"


class Codec:
    """Characters to numbers and back."""

    def __init__(self, text: str) -> None:
        self.characters = sorted(set(text))
        self.numbers = {character: number for number, character in enumerate(self.characters)}

    def __len__(self) -> int:
        return len(self.characters)

    def encode(self, text: str) -> np.ndarray:
        return np.array([self.numbers[character] for character in text])

    def decode(self, numbers: list[int]) -> str:
        return "".join(self.characters[number] for number in numbers)


class Attention(nn.Module):
    """Every position looks at those before it, in several heads at once."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project_in = nn.Linear(width, 3 * width)
        self.project_out = nn.Linear(width, width)

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        batch, length, width = x.shape
        split = self.project_in(x).reshape(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)  # each of shape (batch, heads, length, width of a head)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.project_out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention, then a perceptron for each position; what they say is added to what was there."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width))

    def forward(self, x: rg.Tensor) -> rg.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.perceptron(self.norm2(x))


class LanguageModel(nn.Module):
    """Scores for the next character at every position: (batch, length) to (batch, length, characters)."""

    def __init__(self, characters: int, context: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.context = context
        self.characters = nn.Embedding(characters, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, characters)
        for table in (self.characters, self.positions):
            nn.init.normal_(table.weight, std=0.2)

    def forward(self, text: rg.Tensor) -> rg.Tensor:
        x = self.characters(text) + self.positions(rg.arange(text.shape[1]))
        return self.head(self.norm(self.blocks(x)))

    def loss(self, text: rg.Tensor) -> rg.Tensor:
        """Mean negative log-likelihood, in nats, of each character given those before it."""
        scores = self(text[:, :-1])
        return F.cross_entropy(scores.reshape(-1, scores.shape[-1]), text[:, 1:].reshape(-1))


def windows(text: np.ndarray, starts: np.ndarray, context: int) -> rg.Tensor:
    """Pieces of the text: ``context`` characters and the one that comes after them."""
    return rg.from_numpy(text[starts[:, None] + np.arange(context + 1)])


@rg.no_grad()
def held_out_loss(model: LanguageModel, text: np.ndarray, every: int = 1) -> float:
    """Mean loss on the text, cut into pieces; or on one piece in ``every``."""
    starts = np.arange(0, len(text) - model.context, model.context * every)
    total = 0.0
    for first in range(0, len(starts), 32):
        part = starts[first : first + 32]
        total += model.loss(windows(text, part, model.context)).item() * len(part)
    return total / len(starts)


@rg.no_grad()
def generate(model: LanguageModel, codec: Codec, prompt: str, length: int, temperature: float) -> str:
    """Let the model continue ``prompt``: draw each character from its own probabilities."""
    numbers = list(codec.encode(prompt))
    for _ in range(length):
        scores = model(rg.tensor([numbers[-model.context :]]))[0, -1]
        numbers.append(rg.multinomial(F.softmax(scores / temperature, dim=0), 1).item())
    return codec.decode(numbers)


def train(model: LanguageModel, text: np.ndarray, test_text: np.ndarray, args: argparse.Namespace) -> int:
    """Train for ``args.steps`` steps or ``args.seconds`` seconds; returns the steps done."""
    optimizer = rg.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.99), weight_decay=0.1)
    schedule = rg.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=args.lr, total_steps=args.steps, pct_start=0.1, cycle_momentum=False
    )
    rng = np.random.default_rng(args.seed)
    start = time.perf_counter()
    done, smooth = 0, None
    with rg.anomaly.watch(model, optimizer), Progress(args.steps) as progress:
        while done < args.steps and time.perf_counter() - start < args.seconds:
            loss = model.loss(windows(text, rng.integers(len(text) - args.context, size=args.batch_size), args.context))
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            done += 1
            smooth = loss.item() if smooth is None else 0.95 * smooth + 0.05 * loss.item()
            progress.update(done, f"train {smooth:.3f} nats")
            if done % args.evaluate == 0:
                seconds = time.perf_counter() - start
                test = held_out_loss(model, test_text, every=10)
                progress.line(f"step {done:5d}   train {smooth:.3f}   held out {test:.3f} nats   {seconds:5.1f} s")
    return done


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a transformer on the characters of Newton's Opticks.")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seconds", type=float, default=100, help="stop after this long, whatever the step")
    parser.add_argument("--seed", type=int, default=0, help="for the first weights, the order of the text, the sample")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--context", type=int, default=32, help="how many characters the model can look back")
    parser.add_argument("--width", type=int, default=96)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--lr", type=float, default=8e-3, help="highest learning rate")
    parser.add_argument("--evaluate", type=int, default=100, help="look at the held-out text every so many steps")
    parser.add_argument("--prompt", default="The Rays of Light ")
    parser.add_argument("--length", type=int, default=400, help="characters to write at the end")
    parser.add_argument("--temperature", type=float, default=0.8, help="below 1: likelier characters; above: bolder")
    parser.add_argument(
        "--max-loss", type=float, default=2.0, help="exit with status 1 when the held-out loss is higher"
    )
    args = parser.parse_args(argv)
    if min(args.steps, args.batch_size, args.context, args.width, args.heads, args.layers, args.evaluate) < 1:
        parser.error("--steps, --batch-size, --context, --width, --heads, --layers and --evaluate must be at least 1")
    if args.width % args.heads:
        parser.error(f"--width {args.width} cannot be shared among --heads {args.heads}: it must be a multiple")
    if args.temperature <= 0:
        parser.error("--temperature must be above 0")
    return args


def main(argv: list[str] | None = None) -> int:
    args = parse_arguments(argv)
    rg.manual_seed(args.seed)
    text = gzip.decompress(TEXT.read_bytes()).decode("ascii")
    codec = Codec(text)
    if not args.prompt or set(args.prompt) - set(text):
        print(
            f"--prompt {args.prompt!r} must be made of these characters, at least one: {''.join(codec.characters[1:])}"
        )
        return 2
    numbers = codec.encode(text)
    cut = len(numbers) * 9 // 10
    model = LanguageModel(len(codec), args.context, args.width, args.heads, args.layers)
    size = sum(p.numel() for p in model.parameters())
    print(f"{size:,} parameters learn from {cut:,} characters, {len(codec)} different ones", flush=True)

    start = time.perf_counter()
    steps = train(model, numbers[:cut], numbers[cut:], args)
    loss = held_out_loss(model, numbers[cut:])
    seconds = time.perf_counter() - start
    print(f"held-out loss {loss:.3f} nats per character after {steps} steps in {seconds:.1f} s\n")
    print(generate(model, codec, args.prompt, args.length, args.temperature))
    if not loss <= args.max_loss:
        print(f"\nheld-out loss {loss:.3f} is above the required {args.max_loss}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
