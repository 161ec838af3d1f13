"""A submission: checked as the submitting user, refused where this machine could never run it, then queued by a turn."""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from anycard.config import Paths
from anycard.errors import UsageError
from anycard.i18n import N_
from anycard.jobs import files, prepare
from anycard.jobs.admit import Admitted, EndedMeanwhileError, NewJob, Submission, admit
from anycard.jobs.caller import Caller
from anycard.jobs.checking import Checked, CheckedJob, Request, check_as
from anycard.jobs.dispatch import Dispatcher
from anycard.jobs.fitcheck import Fit, check_fit
from anycard.jobs.spec import JobSpec
from anycard.jobs.states import OPEN_JOB_STATES, JobState
from anycard.jobs.turn import Turn
from anycard.scheduling.feasibility import impossible
from anycard.units import format_bytes

_LOOK_UPS, _LOOK_UP_PACE_S = 50, 0.02


class Submitting:
    """``find``: a job's row by id or name, the user's own first. ``shared``: files are read as the submitting user."""

    def __init__(
        self,
        paths: Paths,
        dispatcher: Dispatcher,
        find: Callable[[str | int, str], Awaitable[Mapping[str, Any]]],
        *,
        shared: bool,
    ) -> None:
        self._paths = paths
        self._dispatcher = dispatcher
        self._find = find
        self._shared = shared

    async def check(self, request: Request, caller: Caller) -> Awaitable[dict[str, Any]]:
        """See ``Jobs.check``."""
        if (request.file is None) == (request.command is None):
            raise UsageError("either a job file or a command is submitted, not both")
        known = self._dispatcher.board.submit_keys.get(request.submit_key)
        if known is not None:
            return _answered(_submitted(known, [], []))
        owner = (caller.uid, caller.gid) if self._shared and caller.uid != 0 else None
        checked = await check_as(replace(request, cards=self._cards()), owner)
        for found in checked.jobs:
            self._refuse_impossible(found.spec)
        fits = [await self._check_fit(found.spec) for found in checked.jobs]
        new = [await self._new_job(request, found, caller.user, owner) for found in checked.jobs]
        submission = Submission(
            jobs=tuple(new),
            submit_key=request.submit_key,
            tenant="default",
            user=caller.user,
            uid=owner[0] if owner else None,
            gid=owner[1] if owner else None,
            held=checked.held,
        )
        return self._queue(submission, new, checked, fits, caller)

    async def _queue(
        self,
        submission: Submission,
        new: Sequence[NewJob],
        checked: Checked,
        fits: Sequence[dict[str, Any] | None],
        caller: Caller,
    ) -> dict[str, Any]:
        try:
            admitted = await self._admit(submission, caller.user)
        finally:  # became a job's folder, or is not wanted: refused, or the same submission came twice
            for job in new:
                if job.staged is not None:
                    shutil.rmtree(job.staged, ignore_errors=True)
        return _submitted(admitted, list(checked.ignored), list(checked.warnings), fits)

    async def _admit(self, submission: Submission, user: str) -> Admitted:
        """A job named in `after` may end between its look-up and the turn: then it is looked up again, until the store knows its end."""

        def apply(turn: Turn) -> Admitted:
            return admit(turn, self._dispatcher.board, submission, self._paths)

        for _ in range(_LOOK_UPS):
            try:
                return await self._dispatcher.ask(apply)
            except EndedMeanwhileError:
                await asyncio.sleep(_LOOK_UP_PACE_S)
            jobs = []
            for new in submission.jobs:
                upstream, ended = await self._upstream(new.spec, user) if new.spec.after else ((), {})
                jobs.append(replace(new, upstream=upstream, ended=ended))
            submission = replace(submission, jobs=tuple(jobs))
        return await self._dispatcher.ask(apply)

    def _refuse_impossible(self, spec: JobSpec) -> None:
        why = impossible(spec.options, self._dispatcher.host())
        if why is not None:
            raise UsageError(why.msgid, hint="`anycard cards` lists what this machine has", **why.params)

    def _cards(self) -> tuple[tuple[str, int | None], ...]:
        """Models and memory of the accelerators that a job can be given here, one of each kind."""
        found = ((card.model, card.memory_bytes) for card in self._dispatcher.machine.cards if card.is_grantable)
        return tuple(dict.fromkeys(found))

    async def _check_fit(self, spec: JobSpec) -> dict[str, Any] | None:
        """Of a job that names its model: whether it fits; UsageError for one that cannot, unless its file wants only a warning."""
        if spec.sizing is None:
            return None
        vendors = sorted({card.vendor for card in self._dispatcher.machine.cards if card.is_accelerator})
        device = vendors[0] if any(demand.card_count for demand in spec.options) and vendors else "cpu"
        factor = await self._dispatcher.grader.factor(spec.sizing, device)
        checked = check_fit(spec.sizing, spec.options, self._dispatcher.host(), factor)
        if checked.fit is not Fit.NEVER or spec.sizing.ask.too_large == "warn":
            return checked.to_json()
        would = ", ".join(f"{one.name} ({format_bytes(one.total_bytes)})" for one in spec.sizing.remedies)
        hint = N_("what would fit here: {options}; `too_large: warn` under anycard.model submits it as it is")
        if not would:
            hint = N_(
                "`anycard advise` compares other cards; `too_large: warn` under anycard.model submits it as it is"
            )
        raise UsageError(checked.text.msgid, hint=hint, options=would, **checked.text.params)

    async def _new_job(self, request: Request, job: CheckedJob, user: str, owner: files.Owner | None) -> NewJob:
        spec = job.spec
        upstream, ended = await self._upstream(spec, user) if spec.after else ((), {})
        staged = None
        if request.file is not None or job.secrets:
            folder = self._paths.jobs / f"{files.STAGED}{secrets.token_hex(8)}"
            await asyncio.to_thread(
                files.stage_submission, folder, spec, source=request.file, secrets=job.secrets, owner=owner
            )
            staged = folder
        key = prepare.key_for(spec, job.setup_key, owner[0] if owner else None, self._paths)
        return NewJob(spec, staged, key, upstream, ended)

    async def _upstream(self, spec: JobSpec, user: str) -> tuple[tuple[int, ...], dict[int, JobState]]:
        rows = [await self._find(ref, user) for ref in spec.after]
        ended = {row["id"]: JobState(row["state"]) for row in rows if row["state"] not in OPEN_JOB_STATES}
        return tuple(row["id"] for row in rows), ended


async def _answered(answer: dict[str, Any]) -> dict[str, Any]:
    return answer


def _submitted(
    admitted: Admitted, ignored: list[str], warnings: list[str], fits: Sequence[dict[str, Any] | None] = ()
) -> dict[str, Any]:
    """``fits``: of each job whether its model fits, None where it names none."""
    told = [*fits, *(None for _ in admitted[len(fits) :])]
    return {
        "schema": "anycard.submitted/1",
        "jobs": [
            {"id": job_id, "name": name, "n_items": count, "fit": fit}
            for (job_id, name, count), fit in zip(admitted, told, strict=False)
        ],
        "ignored": ignored,
        "warnings": warnings,
    }
