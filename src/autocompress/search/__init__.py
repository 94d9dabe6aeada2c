"""The search stage: a differentiable router over the supernet, under the budget."""
