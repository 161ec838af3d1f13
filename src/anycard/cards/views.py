"""A card as JSON: the stable shape of ``anycard cards --json`` and GET /v1/cards (docs/cards.md)."""

from __future__ import annotations

from typing import Any

from anycard.cards.bus import OtherDevice
from anycard.cards.probe import Inventory
from anycard.cards.problem import Problem
from anycard.cards.topology import letters
from anycard.model.card import Card, Link

SCHEMA = "anycard.cards/1"


def card_json(card: Card) -> dict[str, Any]:
    """One entry of ``cards``. A value that is not known is null; ``processes`` null: the list could not be read."""
    reason = card.health_reason
    return {
        "id": card.id,
        "vendor": card.vendor,
        "model": card.model,
        "index": card.index,
        "part_of": card.part_of,
        "divided": card.divided,
        "uuid": card.uuid,
        "pci_address": card.pci_address,
        "memory_bytes": card.memory_bytes,
        "driver": card.driver,
        "runtime": card.runtime,
        "architecture": card.architecture,
        "cores": card.cores,
        "numa_node": card.numa_node,
        "device_nodes": list(card.device_nodes),
        "device_access": [
            {"path": node.path, "mode": f"{node.mode:04o}", "owner": node.owner, "group": node.group}
            for node in card.device_access
        ],
        "accelerator": card.is_accelerator,
        "health": card.health.value,
        "health_reason": str(reason) if reason else None,
        "health_reason_msgid": reason.msgid if reason else None,
        "health_reason_params": dict(reason.params) if reason else None,
        "processes": None
        if card.processes is None
        else [
            {
                "pid": process.pid,
                "memory_bytes": process.memory_bytes,
                "user": process.user,
                "command": process.command,
                "draws": process.draws,
            }
            for process in card.processes
        ],
    }


def problem_json(problem: Problem) -> dict[str, Any]:
    """One entry of ``problems``: a vendor that could not be asked as a whole."""
    return {
        "vendor": problem.vendor,
        "reason": str(problem.reason),
        "reason_msgid": problem.reason.msgid,
        "reason_params": dict(problem.reason.params),
        "mend": str(problem.mend) if problem.mend else None,
        "mend_msgid": problem.mend.msgid if problem.mend else None,
        "mend_params": dict(problem.mend.params) if problem.mend else None,
    }


def around_json(inventory: Inventory) -> dict[str, Any]:
    """What stands beside ``cards``: ``problems``, ``other_devices``, ``links``."""
    return {
        "problems": [problem_json(problem) for problem in inventory.problems],
        "other_devices": [other_json(device) for device in inventory.others],
        "links": [link_json(link) for link in inventory.links],
    }


def other_json(device: OtherDevice) -> dict[str, Any]:
    """One entry of ``other_devices``: it looks like a card and is none."""
    return {
        "kind": device.kind,
        "name": device.name,
        "pci_address": device.pci_address,
        "driver": device.driver,
        "what": str(device.what),
        "what_msgid": device.what.msgid,
        "what_params": dict(device.what.params),
    }


def link_json(link: Link) -> dict[str, Any]:
    """One entry of ``links``: cards by id; ``letters`` as people know them from ``nvidia-smi topo -m``."""
    return {"a": link.a, "b": link.b, "kind": link.kind.value, "lanes": link.lanes, "letters": letters(link)}
