"""Every sentence of the planner in one place, as gettext keys: why a job waits, why it can never run, what would start it sooner.

A sentence about a lack comes twice: said of the job itself, and said of the job that it stands behind.
"""

from __future__ import annotations

from dataclasses import dataclass

from anycard.model.demand import Demand
from anycard.model.text import Param, Text
from anycard.units import format_bytes


@dataclass(frozen=True, slots=True)
class Lack:
    """What an item is short of. ``own`` is said of the job itself, ``behind`` of those after it, once ``{job}`` is filled."""

    own: Text
    behind: Text

    def why_behind(self, job_id: int) -> Text:
        return Text(self.behind.msgid, {"job": job_id, **self.behind.params})


STARTS_SOON = Text("starts in a moment")


def lacks_cards(demand: Demand, free: int, total: int) -> Lack:
    params: dict[str, Param] = {"need": demand.card_count, "free": free, "total": total}
    if demand.card is not None:
        params["card"] = demand.card
        return Lack(
            Text("waits for {need} free {card} ({free} of {total} free)", params),
            Text("behind job {job}, which waits for {need} free {card} ({free} of {total} free)", params),
        )
    if demand.card_count == 1:
        return Lack(
            Text("waits for a free card ({free} of {total} free)", params),
            Text("behind job {job}, which waits for a free card ({free} of {total} free)", params),
        )
    return Lack(
        Text("waits for {need} free cards ({free} of {total} free)", params),
        Text("behind job {job}, which waits for {need} free cards ({free} of {total} free)", params),
    )


def lacks_cpus(need_milli: int, free_milli: int) -> Lack:
    params: dict[str, Param] = {"need": cpu_number(need_milli), "free": cpu_number(free_milli)}
    return Lack(
        Text("waits for CPUs: asks {need}, {free} free", params),
        Text("behind job {job}, which waits for CPUs: asks {need}, {free} free", params),
    )


def lacks_memory(need_bytes: int, free_bytes: int) -> Lack:
    params: dict[str, Param] = {"need": format_bytes(need_bytes), "free": format_bytes(free_bytes)}
    return Lack(
        Text("waits for memory: asks {need}, {free} free", params),
        Text("behind job {job}, which waits for memory: asks {need}, {free} free", params),
    )


def lacks_other_cards(need: int, total: int) -> Text:
    """The job must not use the cards that failed it, and there are not enough others."""
    return Text(
        "waits for cards other than those that failed it: asks {need}, this machine has {total} more",
        {"need": need, "total": total},
    )


def sooner_with_cards(count: int) -> Text:
    if count == 1:
        return Text("would start now with 1 card")
    return Text("would start now with {count} cards", {"count": count})


def sooner_with_cpus(milli: int) -> Text:
    return Text("would start now with cpus: {cpus}", {"cpus": cpu_number(milli)})


def sooner_with_memory(size_bytes: int) -> Text:
    return Text("would start now with {size} of memory", {"size": format_bytes(size_bytes)})


def sooner_with_priority(priority: int) -> Text:
    return Text("would start now with a priority above {priority}", {"priority": priority})


def never_enough_cpus(need_milli: int, total_milli: int) -> Text:
    return Text(
        "{need} CPUs asked, this machine has {total}",
        {"need": cpu_number(need_milli), "total": cpu_number(total_milli)},
    )


def never_enough_memory(need_bytes: int, total_bytes: int) -> Text:
    return Text(
        "{need} of memory asked, this machine has {total}",
        {"need": format_bytes(need_bytes), "total": format_bytes(total_bytes)},
    )


def no_accelerator(count: int) -> Text:
    """Not "0 cards": the CPU is listed as one."""
    if count == 1:
        return Text("1 card asked, this machine has no accelerator")
    return Text("{need} cards asked, this machine has no accelerator", {"need": count})


def never_enough_cards(demand: Demand, total: int) -> Text:
    params: dict[str, Param] = {"need": demand.card_count, "total": total}
    if demand.card_memory_bytes is not None:
        params |= {"card": demand.card or "", "memory": format_bytes(demand.card_memory_bytes)}
        if demand.card is None:
            return Text("{need} cards of {memory} or more asked, this machine has {total}", params)
        return Text("{need} {card} of {memory} or more asked, this machine has {total}", params)
    if demand.card is not None:
        return Text("{need} {card} asked, this machine has {total}", {**params, "card": demand.card})
    if demand.card_count == 1:
        return Text("1 card asked, this machine has {total}", {"total": total})
    return Text("{need} cards asked, this machine has {total}", params)


def never_one_vendor(demand: Demand, total: int) -> Text:
    """Enough cards, but not of one vendor: a program cannot use a mixture."""
    return Text(
        "{need} cards of one vendor asked, this machine has {total}", {"need": demand.card_count, "total": total}
    )


def never_several_instances(demand: Demand, total: int) -> Text:
    params: dict[str, Param] = {"need": demand.card_count, "total": total, "card": demand.card or ""}
    if demand.card is None:
        return Text(
            "{need} cards asked: of MIG instances a program can use one at a time, and of whole cards this machine has {total}",
            params,
        )
    return Text(
        "{need} {card} asked: of MIG instances a program can use one at a time, and of whole cards this machine has {total}",
        params,
    )


def never_divided(demand: Demand, total: int, profiles: tuple[str, ...]) -> Text:
    """What is asked would be there if it were not in MIG mode."""
    params: dict[str, Param] = {
        "need": demand.card_count,
        "total": total,
        "card": demand.card or "",
        "instances": ", ".join(profiles),
    }
    if not profiles:
        return Text(
            "{need} asked, this machine has {total}: the rest is in MIG mode without an instance; `anycard cards` says how to make one",
            params,
        )
    if demand.card is None:
        return Text(
            "{need} cards asked, this machine has {total} that fit and are not divided; ask for a MIG instance by its name: {instances}",
            params,
        )
    return Text(
        "{need} {card} asked, this machine has {total} that fit and are not divided; ask for a MIG instance by its name: {instances}",
        params,
    )


def unknown_card(card: str, models: tuple[str, ...]) -> Text:
    if not models:
        return Text("no card here is called {card}: this machine has no accelerator", {"card": card})
    return Text("no card here is called {card}: this machine has {models}", {"card": card, "models": ", ".join(models)})


def cpu_number(milli: int) -> int | float:
    """Millicores as people write CPUs: ``4``, ``1.5``."""
    return milli // 1000 if milli % 1000 == 0 else milli / 1000
