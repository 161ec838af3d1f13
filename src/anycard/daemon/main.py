"""The composition root: builds everything, owns the processes and the shutdown. `python -m anycard.daemon` is what `anycard up` runs."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import shutil
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from anycard.api.app import create_app
from anycard.api.caller import Gate
from anycard.api.server import Server, listen_loopback, listen_unix
from anycard.api.system import System
from anycard.config import Paths, configuration, paths
from anycard.daemon.heap import share_one_heap
from anycard.daemon.homelock import HomeLock, held
from anycard.daemon.page import open_page
from anycard.daemon.sharedhome import open_shared_home
from anycard.daemon.storecare import look_after_store
from anycard.engines.local.descriptors import widen_descriptors
from anycard.engines.local.engine import LocalEngine
from anycard.engines.local.launch import home_key
from anycard.errors import AnycardError, UnavailableError
from anycard.host.live import LiveHost
from anycard.jobs import files
from anycard.jobs.dispatch import Dispatcher
from anycard.jobs.hooks.sender import Sender
from anycard.jobs.hooks.settings import settings
from anycard.jobs.logdoctor import LogDoctor
from anycard.jobs.readings import CardReadings
from anycard.jobs.service import Jobs
from anycard.jobs.upkeep import DISK_WATCH_S, ENGINE_WATCH_S, PROBE_S, Upkeep
from anycard.store.engine import Store

log = logging.getLogger("anycard.daemon")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the daemon in the foreground until SIGTERM, SIGINT or `anycard down`. 0 after an orderly end."""
    parser = argparse.ArgumentParser(prog="python -m anycard.daemon")
    parser.add_argument("--home")
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--port", type=int)
    parser.add_argument("--page-link", action="store_true", help="say where to log in to the page")
    options = parser.parse_args(argv)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    os.umask(0o077)
    widen_descriptors()
    share_one_heap()
    gc.collect()
    gc.freeze()  # what was imported stays; the collector need not look through it again and again
    gc.set_threshold(50_000, 20, 100)
    try:
        asyncio.run(_serve(paths(options.home), shared=options.shared, port=options.port, page_link=options.page_link))
    except AnycardError as error:
        log.error("%s%s", error, f" ({error.to_json()['hint']})" if error.hint else "")
        return error.exit_code
    return 0


async def _serve(where: Paths, *, shared: bool, port: int | None, page_link: bool) -> None:
    if shared:
        open_shared_home(where)
    elif where.shared_mark.exists():
        raise UnavailableError(
            "{home} is the home of a shared daemon", hint="as root: anycard up --shared", home=where.home
        )
    where.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with held(where) as lock:
        told = settings(configuration(where))
        store = await asyncio.to_thread(Store.open, where, os.environ.get("ANYCARD_DATABASE_URL"))
        if store.missing is not None:
            log.error("%s", store.missing)
        files.drop_staged(where.jobs)
        engine = LocalEngine(where)
        machine = Upkeep(where, LiveHost(), told.limits)
        doctor = LogDoctor()
        dispatcher = Dispatcher(paths=where, store=store, engine=engine, machine=machine, shell=_shell(), doctor=doctor)
        readings = CardReadings(where, LiveHost(), home_key(where), lambda: dispatcher.board, machine)
        hooks = Sender(where, store, told.hooks)
        try:
            machine.watch_disk()
            machine.reserve.refill()
            await machine.look()
            await dispatcher.open()
            hooks.start()
            await readings.open()
            await _run(where, lock, store, dispatcher, machine, readings, shared=shared, port=port, page_link=page_link)
        finally:
            await readings.close()
            await asyncio.to_thread(hooks.stop)
            await doctor.close()
            await engine.close()
            machine.locks.close()
            await asyncio.to_thread(store.close)


async def _run(
    where: Paths,
    lock: HomeLock,
    store: Store,
    dispatcher: Dispatcher,
    machine: Upkeep,
    readings: CardReadings,
    *,
    shared: bool,
    port: int | None,
    page_link: bool,
) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    gate = Gate(where.home / "token", shared=shared)
    system = System(where, store, dispatcher, mode="shared" if shared else "personal", end=ended.set)
    jobs = Jobs(where, store, dispatcher, shared=shared)
    app = create_app(jobs, system, gate)
    app.state.readings = readings
    dispatcher.grader.uses = readings.uses_of
    server = Server(app)

    async def look_at_engine() -> bool:
        return machine.note_engine(dispatcher.engine.trouble())

    listeners = _listen(where, gate, shared=shared, port=port)
    page = open_page(where, app, jobs, system, dispatcher, readings, listeners)
    address, listening = where.socket, where.socket.stat()
    tasks = {
        asyncio.create_task(dispatcher.run(), name="dispatcher"),
        asyncio.create_task(server.serve(sockets=listeners), name="server"),
        asyncio.create_task(_every(PROBE_S, machine.look, dispatcher), name="cards"),
        asyncio.create_task(_every(DISK_WATCH_S, machine.look_at_disk, dispatcher), name="disk"),
        asyncio.create_task(_every(ENGINE_WATCH_S, look_at_engine, dispatcher), name="engine"),
        asyncio.create_task(lock.until_lost(), name="home"),
    }
    care = asyncio.create_task(
        look_after_store(store, where, lambda: dispatcher.board, system.note_damage), name="store care"
    )
    stop = asyncio.create_task(ended.wait(), name="signals")
    log.info("ready: home %s, pid %d", where.home, os.getpid())
    _tell_service_manager("READY=1")
    if page is not None and page_link and not _into_journal():
        print(f"page: {page.link(gate.own())['url']}", flush=True)
    done, _ = await asyncio.wait({stop, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    _tell_service_manager("STOPPING=1")
    dispatcher.stop()
    if page is not None:
        page.end()
    server.should_exit = True
    by_name = {task.get_name(): task for task in tasks}
    lost = not lock.is_in_place()
    if lost:
        log.error("the home %s was moved or deleted: this daemon leaves; what runs goes on", where.home)
    for look in (*(by_name[name] for name in ("cards", "disk", "engine", "home")), care):
        look.cancel()
    over, _ = await asyncio.wait({by_name["dispatcher"], by_name["server"]}, timeout=10)
    _unlink_own(address, listening)
    for task in (done | over) - {stop}:
        if lost and task.exception() is not None:
            log.error("%s: %s", task.get_name(), task.exception())  # for want of a home
        else:
            task.result()  # something ended that never should: let its error out


async def _every(seconds: float, look: Callable[[], Awaitable[bool]], dispatcher: Dispatcher) -> None:
    """Looks again and again; a change wakes the loop."""
    while True:
        await asyncio.sleep(seconds)
        if await look():
            dispatcher.nudge()


def _listen(where: Paths, gate: Gate, *, shared: bool, port: int | None) -> list[socket.socket]:
    listeners = [listen_unix(where.socket, 0o666 if shared else 0o600)]
    if port is None:
        gate.drop_token()  # the loopback listener that is there in any case is the page's, not the API's
    else:
        listeners.append(listen_loopback(port))
        token = gate.make_token()
        shown = "(not written into a journal; choose one by ANYCARD_TOKEN_FILE)" if _into_journal() else token
        print(f"http://127.0.0.1:{listeners[-1].getsockname()[1]} token: {shown}", flush=True)
    return listeners


def _unlink_own(path: Path, ours: os.stat_result) -> None:
    """Removes our socket, and not that of another daemon which made its home where ours was."""
    try:
        if os.path.samestat(path.stat(), ours):
            path.unlink()
    except (FileNotFoundError, NotADirectoryError):
        return


def _shell() -> str:
    return shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin") or "/bin/sh"


def _into_journal() -> bool:
    """Whether what we print is kept in systemd's journal, which others may read: then no secret is printed.
    Source: systemd.exec(5), $JOURNAL_STREAM."""
    found = os.fstat(1)
    return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def _tell_service_manager(state: str) -> None:
    """systemd's notification protocol (sd_notify): a datagram to $NOTIFY_SOCKET."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        try:
            out.connect("\0" + address[1:] if address.startswith("@") else address)
            out.send(state.encode())
        except OSError as error:
            log.warning("the service manager could not be told %s: %s", state, error)
