"""Whether the model hub can be had: asked once, since its clients retry for a minute and say so ten times."""

from __future__ import annotations

import functools
import logging
import socket
import sys
import urllib.parse
import urllib.request

log = logging.getLogger("codegrain")


@functools.cache
def offline_where_unknown() -> None:
    """Take the hub's libraries offline where its host has no address here and no proxy would know it.

    What they have in their caches still loads; the rest fails at once.
    """
    import huggingface_hub.constants as hub

    host = urllib.parse.urlsplit(hub.ENDPOINT).hostname
    if hub.HF_HUB_OFFLINE or {"https", "http", "all"} & urllib.request.getproxies().keys():
        return
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        log.warning("%s cannot be reached: only what has been downloaded before is there", host)
        hub.HF_HUB_OFFLINE = True
        if "datasets" in sys.modules:
            sys.modules["datasets"].config.HF_HUB_OFFLINE = True
