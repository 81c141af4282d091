"""The way out of a sandbox to the model hubs and nothing else: an allowlist proxy outside, a forwarder inside.

`worker.egress.gate` starts the proxy, `worker.egress.proxy` is it, `worker.egress.forward` leads to it from within.
This file names what both sides of a sandbox must agree on, and imports nothing.
"""

PORT = 3128  # of the forwarder inside of a network namespace of its own, where every port is free
SOCKET_INSIDE = "/run/trainyard/egress.sock"
FORWARDER_INSIDE = "/run/trainyard/forward.py"


def proxy_environment(port: int = PORT) -> dict[str, str]:
    """What makes the usual libraries (requests, httpx, urllib3, pip, curl, git) go through the forwarder."""
    url = f"http://127.0.0.1:{port}"
    names = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")
    away = "localhost,127.0.0.1,::1"
    found = {name: url for upper in names for name in (upper, upper.lower())}
    return {**found, "NO_PROXY": away, "no_proxy": away}
