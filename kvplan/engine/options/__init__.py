"""The parts of the engine config: one module for each thing that vLLM derives from the options."""
