"""Ends what Spark leaves behind in the driver's JVM each time a streaming query is started.

For every stateful stage, and for every source written in Python, Spark starts a Python process beside the
driver, through a factory of its own (`StreamingPythonRunner`, `PythonStreamingSourceRunner`). It forgets the
factory, and these stay until the JVM ends:

- a thread that looks after idle workers, of which such a factory never has any;
- the socket to which the process has connected, and the selector that waited for it. Spark closes the socket,
  but its descriptor stays open until the selector looks again, and nobody has the selector any more;
- for a query whose batches call Python, a connection of Py4J, with a thread that serves it in this process;
- all of the query, in the heap of the JVM, as long as an object of Py4J in this process refers to it. Such an
  object is in a circle with its own methods, and Python hardly ever looks for circles in a program at rest.

A program that starts its query again and again, such as `serve` at each change of queries, would run out of
descriptors. What cannot be found or ended, such as descriptors where there is no /proc, is left as it is.
"""

from __future__ import annotations

import gc
import os
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from py4j.java_gateway import get_field  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

# What this does is not needed for any answer: another Java or another Spark may not let it.
_IN_VAIN = (Py4JError, PySparkException, OSError, TypeError, ValueError)
MONITOR = "Idle Worker Monitor for "
_WATCHED = re.compile(r"^tfd:\s*(\d+)", re.M)
_ACCEPTS = 1 << 16  # the flag of a listening socket, as /proc/net/unix has it

# The number of a descriptor that two threads have found may be another file's when the second one closes it.
_one_at_a_time = threading.Lock()


def end_leftovers(spark: SparkSession) -> None:
    """Ends what earlier starts have left; queries that run or start meanwhile do not notice."""
    gateway: Any = spark.sparkContext._gateway
    jvm = gateway.jvm
    gc.collect()
    for end in (_end_monitors, _close_descriptors):
        with _one_at_a_time, suppress(Py4JError, OSError, ValueError):
            end(gateway, jvm)
    with suppress(Py4JError):
        # Closes connections that were idle before the call before; a thread that needs one again opens it.
        gateway.java_gateway_server.getCallbackClient().periodicCleanup()


def _end_monitors(gateway: Any, jvm: Any) -> None:
    """Ends the threads that look after workers, where the factory has no pool of them."""
    quiet = _empty_handler(gateway, jvm)
    for thread in _threads(gateway, jvm, MONITOR):
        if not get_field(thread, "$outer").useDaemonEnabled():
            thread.setUncaughtExceptionHandler(quiet)
            thread.interrupt()


def _threads(gateway: Any, jvm: Any, prefix: str) -> Iterator[Any]:
    """The threads whose names begin so; their names come in one call, since there may be hundreds."""
    threads = jvm.java.util.ArrayList(jvm.java.lang.Thread.getAllStackTraces().keySet())
    text = _type(jvm, "java.lang.String")
    named = jvm.java.lang.invoke.MethodHandles.lookup().findVirtual(
        _type(jvm, "java.lang.Thread"), "getName", _method_type(gateway, jvm, text)
    )
    to_name = _implement(jvm, "java.util.function.Function", named)
    to_names = jvm.java.util.stream.Collectors.joining("\n")
    names = threads.stream().map(to_name).collect(to_names)
    for position, name in enumerate(names.split("\n")):
        if name.startswith(prefix):
            yield threads.get(position)


def _empty_handler(gateway: Any, jvm: Any) -> Any:
    """Says nothing of a thread that ends by an exception."""
    arguments = (_type(jvm, name) for name in ("java.lang.Thread", "java.lang.Throwable"))
    method = _method_type(gateway, jvm, jvm.java.lang.Void.TYPE, *arguments)
    empty = jvm.java.lang.invoke.MethodHandles.empty(method)
    return _implement(jvm, "java.lang.Thread$UncaughtExceptionHandler", empty)


def _implement(jvm: Any, interface: str, method: Any) -> Any:
    """An object of Java's whose one method this is, so that it needs nothing of this process."""
    return jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(_type(jvm, interface), method)


def _method_type(gateway: Any, jvm: Any, result: Any, *arguments: Any) -> Any:
    types = gateway.new_array(jvm.java.lang.Class, len(arguments))
    for position, argument in enumerate(arguments):
        types[position] = argument
    return jvm.java.lang.invoke.MethodType.methodType(result, types)


def _type(jvm: Any, name: str) -> Any:
    return jvm.java.lang.Class.forName(name)


def _close_descriptors(gateway: Any, jvm: Any) -> None:
    for descriptor in forgotten_descriptors(jvm.java.lang.ProcessHandle.current().pid()):
        opened = jvm.sun.nio.ch.IOUtil.newFD(descriptor)
        jvm.java.io.FileInputStream(opened).close()


def forgotten_descriptors(process: int) -> list[int]:
    """Descriptors of selectors that wait for one socket whose file is gone, with that socket.

    Nobody can connect to it any more. Spark removes the file after it has closed the socket, so Java has no
    use for the descriptor either: what it would close with the selector is all there is.
    """
    own = Path(f"/proc/{process}")
    if not own.is_dir():
        return []
    gone = {f"socket:[{inode}]" for inode, path in _listening(own) if not os.path.lexists(path)}
    opened = _opened(own)
    found: list[int] = []
    for descriptor, what in opened.items():
        if what != "anon_inode:[eventpoll]":
            continue
        watched = _watched(own, descriptor)
        kinds = sorted("socket" if opened.get(each) in gone else opened.get(each, "") for each in watched)
        if kinds == ["anon_inode:[eventfd]", "socket"]:
            found += [descriptor, *watched]
    return found


def _listening(own: Path) -> Iterator[tuple[str, str]]:
    """The inode and the file of each Unix socket that accepts connections."""
    for line in (own / "net" / "unix").read_text().splitlines()[1:]:
        fields = line.split(maxsplit=7)
        if len(fields) == 8 and int(fields[3], 16) & _ACCEPTS and fields[7].startswith("/"):
            yield fields[6], fields[7]


def _opened(own: Path) -> dict[int, str]:
    found = {}
    for name in os.listdir(own / "fd"):
        with suppress(OSError):
            found[int(name)] = os.readlink(own / "fd" / name)
    return found


def _watched(own: Path, descriptor: int) -> list[int]:
    """The descriptors that a selector waits for."""
    try:
        text = (own / "fdinfo" / str(descriptor)).read_text()
    except OSError:
        return []
    return [int(number) for number in _WATCHED.findall(text)]
