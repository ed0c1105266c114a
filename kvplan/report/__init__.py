"""The report room: how a plan and its findings are told. It knows terminals and formats, not vLLM."""
