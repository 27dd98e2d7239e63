"""Functions with a custom backward: rounding that lets gradients through, a clipped exponential."""

import torch
import torch.nn as nn
from torch.autograd import Function, gradcheck

torch.manual_seed(8)
torch.set_default_dtype(torch.float64)


class RoundSTE(Function):
    @staticmethod
    def forward(ctx, input, levels):
        ctx.save_for_backward(input)
        ctx.levels = levels
        return torch.round(input * levels) / levels

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        grad_input = grad_output.clone()
        grad_input[input.abs() > 1] = 0
        return grad_input, None


class SafeExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, i):
        result = i.clamp(max=10.0).exp()
        ctx.save_for_backward(i, result)
        return result

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_output):
        i, result = ctx.saved_tensors
        if not ctx.needs_input_grad[0]:
            return None
        return grad_output * result * (i < 10)


class LinearFunction(Function):
    @staticmethod
    def forward(input, weight, bias):
        output = input.mm(weight.t())
        if bias is not None:
            output += bias.unsqueeze(0).expand_as(output)
        return output

    @staticmethod
    def setup_context(ctx, inputs, output):
        input, weight, bias = inputs
        ctx.save_for_backward(input, weight, bias)

    @staticmethod
    def backward(ctx, grad_output):
        input, weight, bias = ctx.saved_tensors
        grad_bias = grad_output.sum(0) if bias is not None and ctx.needs_input_grad[2] else None
        return grad_output.mm(weight), grad_output.t().mm(input), grad_bias


class Linear(nn.Module):
    def __init__(self, input_features, output_features, bias=True):
        super().__init__()
        self.input_features, self.output_features = input_features, output_features
        self.weight = nn.Parameter(torch.empty(output_features, input_features))
        if bias:
            self.bias = nn.Parameter(torch.empty(output_features))
        else:
            self.register_parameter("bias", None)
        nn.init.uniform_(self.weight, -0.5, 0.5)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -0.5, 0.5)

    def forward(self, input):
        return LinearFunction.apply(input, self.weight, self.bias)

    def extra_repr(self):
        bias = self.bias is not None
        return f"input_features={self.input_features}, output_features={self.output_features}, bias={bias}"


inputs = (
    torch.randn(5, 4, requires_grad=True),
    torch.randn(3, 4, requires_grad=True),
    torch.randn(3, requires_grad=True),
)
print("gradcheck:", gradcheck(LinearFunction.apply, inputs, eps=1e-6, atol=1e-6))
print("gradcheck:", gradcheck(SafeExp.apply, (torch.randn(4, requires_grad=True),)))


class Quantised(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = Linear(4, 8), Linear(8, 1, bias=False)

    def forward(self, x):
        return SafeExp.apply(self.b(RoundSTE.apply(torch.tanh(self.a(x)), 8)))


model = Quantised()
print(model)
x = torch.randn(40, 4)
y = torch.exp(0.5 * x[:, :1] - 0.2 * x[:, 1:2])
optimizer = torch.optim.Adamax(model.parameters(), lr=0.02)
for step in range(20):
    loss = nn.functional.huber_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        print(step, loss.item(), model.b.weight.grad.abs().max().item())
