"""The room of runs: how are launches run, one or many?

One launch goes from its reference to checkpoint and draft, plan and findings (`launching`, `judging`). Many are found
in files (`scanning`, `pairing`) and held against what is known already (`baseline`), or made of one by varying it
(`combining`, `sweeping`), with the causes of what differs (`causes`). What a project settles for all of them is read
from its settings file (`settings`).

Requests and answers are frozen values. Nothing here knows a terminal: how far a run is goes to an observer
(`progress`), remarks on the way come back as notices. An InputError that ends a run carries the remarks that were made
before it as its notes (`__notes__`).
"""
