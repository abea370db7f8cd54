"""What can go wrong in a Host call, as far as a caller of it must tell apart."""

from typing import Literal

RefusalKind = Literal["preset_not_found", "preset_broken", "session_not_found", "not_queued", "unproven", "other"]
"""What a typed refusal means, for every wire alike; `unproven` says nothing about whether the call had an effect."""


class HostFault(Exception):
    """A Host call gave no usable answer. `sent` is False only when nothing can have reached the Host."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.message = message
        self.sent = sent


class Unreachable(HostFault):
    """No connection could be made: the call never left."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=False)


class ReplyLost(HostFault):
    """The call went out and no whole reply came back in time: its outcome is unknown."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=True)


class BadReply(HostFault):
    """Something answered that is no DSH Host reply: the outcome of a write is unknown."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=True)


class LoginNeeded(HostFault):
    """The Host refuses the credential before it looks at the call."""

    def __init__(self, message: str, *, expired: bool) -> None:
        super().__init__(message, sent=False)
        self.expired = expired


class Unsupported(HostFault):
    """The Host does not offer this endpoint, or speaks no wire that Agentlink knows."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=False)


class Refused(HostFault):
    """The Host's own typed refusal (`ok: false`); `code` and `details` are the Host's, unchanged."""

    def __init__(self, code: str, message: str, *, kind: RefusalKind, details: dict[str, object] | None = None) -> None:
        super().__init__(message, sent=True)
        self.code = code
        self.kind = kind
        self.details = details or {}

    @property
    def final(self) -> bool:
        """Whether this refusal proves that the call had no effect; an internal error proves nothing."""
        return self.kind != "unproven"
