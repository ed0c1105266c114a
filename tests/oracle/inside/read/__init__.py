"""What is read off vLLM's own objects after each stage, as plain JSON values."""
