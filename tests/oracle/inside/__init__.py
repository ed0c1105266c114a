"""The oracle's inside: runs in the other interpreter, which has torch and what vLLM imports, but not kvplan.

`python -m tests.oracle.inside` reads a job and answers its cases (`batch`). `stubs` pretends the GPU and the compiled
extensions, `startup` goes through vLLM's own start-up stage by stage, `read` tells what each stage decided. Nothing
here is imported by kvplan's interpreter, and vLLM's sources are the only place where an answer is made.
"""
