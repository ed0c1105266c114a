"""What vLLM refuses on the way although its later stages would work: quantisation, bounds, kernels, weight shapes."""
