"""An exported folder as a model repository on the hub, through huggingface_hub."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from huggingface_hub import HfApi, constants, get_token
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, HTTPError, OfflineModeIsEnabled
from huggingface_hub.utils import validate_repo_id

from recipes.cli.errors import UserError


def check_name(repo: str) -> None:
    """Raise UserError unless `repo` can name a repository. Asks nobody."""
    try:
        validate_repo_id(repo)
    except HFValidationError as error:
        raise UserError(f"push={repo}: {str(error).splitlines()[0]}; give USER/NAME") from None
    if repo.count("/") != 1:
        raise UserError(f"push={repo}: give USER/NAME, the user or organisation and the repository")


def check_access(repo: str) -> None:
    """Raise UserError unless a token is there and the hub accepts it, so that no weights are merged in vain."""
    if get_token() is None:
        raise UserError(f"push={repo}: no token of the hub is here; run `hf auth login`, set HF_TOKEN, or dry_run=true")
    _ask(repo, lambda: HfApi().whoami())


def upload(folder: Path, repo: str, private: bool) -> str:
    """Create the repository unless it exists, upload the folder in one commit, and return its address."""

    def send() -> str:
        api = HfApi()
        api.create_repo(repo, private=private, exist_ok=True)
        return str(api.upload_folder(repo_id=repo, folder_path=folder, commit_message="Weights and model card"))

    return str(_ask(repo, send))


def _ask(repo: str, request: Callable[[], Any]) -> Any:
    """What `request` returns; each way in which the hub can fail as one line."""
    try:
        return request()
    except OfflineModeIsEnabled:
        raise UserError(f"push={repo}: HF_HUB_OFFLINE is set; unset it, or set dry_run=true") from None
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else "no"
        remedy = "check the token and its right to write" if status in (401, 403) else "try again later"
        raise UserError(f"push={repo}: the hub answered with status {status}; {remedy}") from None
    except (HTTPError, OSError, RuntimeError) as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"push={repo}: {constants.ENDPOINT} cannot be reached ({first}); or set dry_run=true") from None
