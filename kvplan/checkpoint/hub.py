"""Fetching a model's small files from the Hugging Face Hub: the local cache first, the network only if allowed."""

from __future__ import annotations

import re
from pathlib import Path

from kvplan.checkpoint import asking
from kvplan.checkpoint.mistral import PARAMS_FILE
from kvplan.checkpoint.normalise import quiet
from kvplan.checkpoint.reading import CONFIG_FILE
from kvplan.checkpoint.values import Source
from kvplan.errors import InputError

_REPO_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}", re.ASCII)


def is_repo_id(reference: str) -> bool:
    """Whether `reference` has the form `organisation/name` of a Hub repository."""
    return _REPO_ID.fullmatch(reference) is not None and ".." not in reference and "--" not in reference


def find(repo_id: str, *, offline: bool, config_format: str = "auto") -> tuple[Path, Source]:
    """The local path of a repository's config.json (format `hf`) or params.json (`mistral`), downloaded if it is not
    in the Hub cache; `auto` takes the first that is there.

    The files beside the path are whatever the cache holds; `companion` fetches one more of them.
    """
    files = {"hf": (CONFIG_FILE,), "mistral": (PARAMS_FILE,)}.get(config_format, (CONFIG_FILE, PARAMS_FILE))
    for name in files:
        cached = _cached(repo_id, name)
        if cached is not None:
            return cached, Source.HUB_CACHE
    if offline:
        raise InputError(
            f"{repo_id}: is not in the catalog nor in the local Hub cache, and --offline forbids the network: "
            "give a directory or a config.json, or drop --offline"
        )
    for name in files:
        path = _download(repo_id, name)
        if path is not None:
            return path, Source.HUB
    raise InputError(f"{repo_id}: has no {' or '.join(files)} on the Hub: give a repository of a Transformers model")


def companion(repo_id: str, name: str, *, offline: bool) -> Path | None:
    """The local path of another small file of the repository, or None where there is none (or no network)."""
    cached = _cached(repo_id, name)
    if cached is not None or offline:
        return cached
    try:
        return _download(repo_id, name, asking.FURTHER)
    except InputError:
        return None


def _cached(repo_id: str, name: str) -> Path | None:
    with quiet():
        from huggingface_hub import try_to_load_from_cache

        try:
            found = try_to_load_from_cache(repo_id, name)
        except (OSError, ValueError):
            return None
    return Path(found) if isinstance(found, str) else None


def _download(repo_id: str, name: str, seconds: float = asking.FIRST) -> Path | None:
    """Download one file; None if the repository has no such file."""
    with quiet():
        from huggingface_hub import errors, hf_hub_download

        try:
            return Path(asking.ask(f"{repo_id}/{name}", lambda: hf_hub_download(repo_id, name), seconds))
        except asking.Unreachable as error:
            raise _unreachable(repo_id, error) from None
        except errors.GatedRepoError:
            raise InputError(
                f"{repo_id}: is gated on the Hub: accept its terms there and log in (hf auth login), "
                "or give a local directory or config.json"
            ) from None
        except errors.RepositoryNotFoundError:
            raise InputError(
                f"{repo_id}: there is no such public repository on the Hub (or it is private and needs a login): "
                "check the name, or see 'kvplan models'"
            ) from None
        except errors.EntryNotFoundError as error:
            if isinstance(error, errors.LocalEntryNotFoundError):
                raise _unreachable(repo_id, error) from None
            return None
        except Exception as error:
            raise _unreachable(repo_id, error) from None


def _unreachable(repo_id: str, error: Exception) -> InputError:
    reason = " ".join(str(error).split())[:120] or type(error).__name__
    if not isinstance(error, asking.Unreachable):
        asking.unreachable(reason)
    return InputError(
        f"{repo_id}: the Hub cannot be reached ({reason}): check the network, or give a local directory or config.json"
    )
