"""The composition root: builds everything, owns the processes and the shutdown. `python -m anycard.daemon` is what `anycard up` runs."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import gc
import logging
import os
import shutil
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence

from anycard.api.app import create_app
from anycard.api.caller import Gate
from anycard.api.server import Server, listen_loopback, listen_unix
from anycard.api.system import System
from anycard.config import Paths, configuration, paths
from anycard.daemon.sharedhome import open_shared_home
from anycard.daemon.storecare import look_after_store
from anycard.engines.local.engine import LocalEngine
from anycard.engines.local.launch import home_key
from anycard.errors import AnycardError, ConflictError, UnavailableError
from anycard.host.live import LiveHost
from anycard.jobs import files
from anycard.jobs.dispatch import Dispatcher
from anycard.jobs.hooks.sender import Sender
from anycard.jobs.hooks.settings import settings
from anycard.jobs.logdoctor import LogDoctor
from anycard.jobs.readings import CardReadings
from anycard.jobs.service import Jobs
from anycard.jobs.upkeep import DISK_WATCH_S, PROBE_S, Upkeep
from anycard.store.engine import Store

log = logging.getLogger("anycard.daemon")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the daemon in the foreground until SIGTERM, SIGINT or `anycard down`. 0 after an orderly end."""
    parser = argparse.ArgumentParser(prog="python -m anycard.daemon")
    parser.add_argument("--home")
    parser.add_argument("--shared", action="store_true")
    parser.add_argument("--port", type=int)
    options = parser.parse_args(argv)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    os.umask(0o077)
    gc.collect()
    gc.freeze()  # what was imported stays; the collector need not look through it again and again
    gc.set_threshold(50_000, 20, 100)
    try:
        asyncio.run(_serve(paths(options.home), shared=options.shared, port=options.port))
    except AnycardError as error:
        log.error("%s%s", error, f" ({error.to_json()['hint']})" if error.hint else "")
        return error.exit_code
    return 0


async def _serve(where: Paths, *, shared: bool, port: int | None) -> None:
    if shared:
        open_shared_home(where)
    elif where.shared_mark.exists():
        raise UnavailableError(
            "{home} is the home of a shared daemon", hint="as root: anycard up --shared", home=where.home
        )
    where.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _single(where):
        told = settings(configuration(where))
        store = await asyncio.to_thread(Store.open, where, os.environ.get("ANYCARD_DATABASE_URL"))
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
            await _run(where, store, dispatcher, machine, readings, shared=shared, port=port)
        finally:
            await readings.close()
            await asyncio.to_thread(hooks.stop)
            await doctor.close()
            await engine.close()
            machine.locks.close()
            await asyncio.to_thread(store.close)


async def _run(
    where: Paths,
    store: Store,
    dispatcher: Dispatcher,
    machine: Upkeep,
    readings: CardReadings,
    *,
    shared: bool,
    port: int | None,
) -> None:
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    gate = Gate(where.home / "token", shared=shared)
    system = System(where, store, dispatcher, mode="shared" if shared else "personal", end=ended.set)
    app = create_app(Jobs(where, store, dispatcher, shared=shared), system, gate)
    app.state.readings = readings
    server = Server(app)
    listeners = _listen(where, gate, shared=shared, port=port)
    tasks = {
        asyncio.create_task(dispatcher.run(), name="dispatcher"),
        asyncio.create_task(server.serve(sockets=listeners), name="server"),
        asyncio.create_task(_every(PROBE_S, machine.look, dispatcher), name="cards"),
        asyncio.create_task(_every(DISK_WATCH_S, machine.look_at_disk, dispatcher), name="disk"),
    }
    care = asyncio.create_task(
        look_after_store(store, where, lambda: dispatcher.board, system.note_damage), name="store care"
    )
    stop = asyncio.create_task(ended.wait(), name="signals")
    log.info("ready: home %s, pid %d", where.home, os.getpid())
    _tell_service_manager("READY=1")
    done, _ = await asyncio.wait({stop, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    _tell_service_manager("STOPPING=1")
    dispatcher.stop()
    server.should_exit = True
    by_name = {task.get_name(): task for task in tasks}
    for look in (by_name["cards"], by_name["disk"], care):
        look.cancel()
    await asyncio.wait({by_name["dispatcher"], by_name["server"]}, timeout=10)
    where.socket.unlink(missing_ok=True)
    for task in done - {stop}:
        task.result()  # something ended that never should: let its error out


async def _every(seconds: float, look: Callable[[], Awaitable[bool]], dispatcher: Dispatcher) -> None:
    """Looks again and again; a change wakes the loop."""
    while True:
        await asyncio.sleep(seconds)
        if await look():
            dispatcher.nudge()


def _listen(where: Paths, gate: Gate, *, shared: bool, port: int | None) -> list[socket.socket]:
    listeners = [listen_unix(where.socket, 0o666 if shared else 0o600)]
    if port is not None:
        listeners.append(listen_loopback(port))
        token = gate.make_token()
        print(f"http://127.0.0.1:{listeners[-1].getsockname()[1]} token: {token}", flush=True)
    return listeners


@contextlib.contextmanager
def _single(where: Paths) -> Iterator[None]:
    """One daemon a home: a lock that the kernel drops with the process."""
    descriptor = os.open(where.daemon_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "?"
            raise ConflictError(
                "a daemon for {home} is running already (pid {pid})",
                hint="`anycard down` ends it",
                home=str(where.home),
                pid=pid,
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def _shell() -> str:
    return shutil.which("bash", path="/bin:/usr/bin:/usr/local/bin") or "/bin/sh"


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
