"""Where evidence of a machine was printed, as the rules name it."""

from __future__ import annotations

from anycard.host.host import Host


def platform_of(host: Host) -> str:
    """linux, wsl, windows, mac, container or k8s."""
    if host.platform == "win32":
        return "windows"
    if host.platform == "darwin":
        return "mac"
    if "microsoft" in (host.read("/proc/version").text or "").lower():
        return "wsl"
    if "KUBERNETES_SERVICE_PORT" in host.environ:
        return "k8s"
    if "container" in host.environ or host.exists("/.dockerenv"):
        return "container"
    return "linux"
