# ruff: noqa: N806
"""Policy gradients with a baseline on a small corridor."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Categorical, Normal

torch.manual_seed(543)


class Corridor:
    """Walk right to the goal; every step costs a little."""

    length = 5

    def reset(self):
        self.position, self.steps = 0, 0
        return self._state()

    def step(self, action):
        self.position = max(0, self.position + (1 if action == 1 else -1))
        self.steps += 1
        done = self.position >= self.length or self.steps >= 20
        return self._state(), 1.0 if self.position >= self.length else -0.05, done

    def _state(self):
        return np.array([self.position / self.length, self.steps / 20, 1.0], dtype=np.float32)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1 = nn.Linear(3, 16)
        self.action_head = nn.Linear(16, 2)
        self.value_head = nn.Linear(16, 1)
        self.saved_actions, self.rewards = [], []

    def forward(self, x):
        x = F.relu(self.affine1(x))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


model = Policy()
optimizer = optim.Adam(model.parameters(), lr=2e-2)
eps = np.finfo(np.float32).eps.item()


def select_action(state):
    probs, state_value = model(torch.from_numpy(state).float())
    m = Categorical(probs)
    action = m.sample()
    model.saved_actions.append((m.log_prob(action), state_value, m.entropy()))
    return action.item()


def finish_episode(gamma=0.99):
    R, returns = 0, []
    for r in model.rewards[::-1]:
        R = r + gamma * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    policy_losses, value_losses = [], []
    for (log_prob, value, entropy), R in zip(model.saved_actions, returns, strict=True):
        advantage = R - value.item()
        policy_losses.append(-log_prob * advantage - 0.01 * entropy)
        value_losses.append(F.smooth_l1_loss(value, torch.tensor([R])))
    optimizer.zero_grad()
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
    loss.backward()
    optimizer.step()
    del model.rewards[:]
    del model.saved_actions[:]
    return loss.item()


env = Corridor()
running_reward = 0
for i_episode in range(8):
    state, ep_reward, done = env.reset(), 0, False
    while not done:
        state, reward, done = env.step(select_action(state))
        model.rewards.append(reward)
        ep_reward += reward
    running_reward = 0.1 * ep_reward + 0.9 * running_reward
    loss = finish_episode()
    print(f"episode {i_episode}: reward {ep_reward:.2f} average {running_reward:.4f} loss {loss:.5f}")

# a continuous action, by reparametrisation
mean, log_std = torch.zeros(2, requires_grad=True), torch.full((2,), -0.5, requires_grad=True)
optimizer = optim.SGD([mean, log_std], lr=0.05)
for _ in range(10):
    dist = Normal(mean, log_std.exp())
    actions = dist.rsample((16,))
    cost = ((actions - torch.tensor([0.5, -1.0])) ** 2).sum(-1).mean() - 0.01 * dist.entropy().sum()
    optimizer.zero_grad()
    cost.backward()
    optimizer.step()
kl = torch.distributions.kl_divergence(dist, Normal(torch.zeros(2), torch.ones(2)))
print(f"{cost.item():.5f}", mean.detach(), log_std.data, kl.detach(), dist)
