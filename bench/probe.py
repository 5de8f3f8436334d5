"""What the machine can do and what this process uses: figures to put beside a measurement."""

import os
import platform
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np


def gemm_gflops(threads: int, size: int = 768, seconds: float = 0.4) -> float:
    """Float32 matrix products in ``threads`` threads side by side, 10⁹ operations a second.

    NumPy's BLAS is held to one thread (bench/__init__.py); it releases the interpreter, so the threads run in parallel.
    """

    def work(seed: int) -> float:
        generator = np.random.default_rng(seed)
        a, b = (generator.standard_normal((size, size), dtype=np.float32) for _ in range(2))
        out = a @ b
        count, end = 0, time.perf_counter() + seconds
        began = time.perf_counter()
        while time.perf_counter() < end:
            np.matmul(a, b, out=out)
            count += 1
        return count * 2 * size**3 / (time.perf_counter() - began) / 1e9

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(work, range(threads)))


def read_gb_per_second(threads: int, megabytes: int = 128, rounds: int = 3) -> float:
    """Memory read speed: arrays larger than the caches, in ``threads`` threads side by side, 10⁹ bytes a second."""

    def work(_: int) -> float:
        data = np.ones(megabytes * (1 << 20) // 8, np.float64)
        data.max()
        began = time.perf_counter()
        for _ in range(rounds):
            data.max()
        return rounds * data.nbytes / (time.perf_counter() - began) / 1e9

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(work, range(threads)))


def machine(threads: int) -> dict[str, object]:
    """The probe that stands beside every speed figure."""
    return {
        "processor": _processor(),
        "cpus": os.cpu_count(),
        "threads": threads,
        "gemm_gflops": round(gemm_gflops(threads), 1),
        "read_gb_s": round(read_gb_per_second(threads), 2),
        "load_average": round(os.getloadavg()[0], 2) if sys.platform != "win32" else None,
    }


def resident_bytes(process: int | None = None) -> int | None:
    """Resident memory of a process (this one without a number), None where nothing tells."""
    try:
        import psutil

        return int(psutil.Process(process).memory_info().rss)
    except ImportError:
        pass
    status = Path(f"/proc/{process or 'self'}/status")
    if not status.exists():
        return None
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


def peak_resident_bytes() -> int | None:
    """The most that this process ever had resident, None where nothing tells."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def cpu_seconds(process: int) -> float | None:
    """CPU time that another process has used, None where nothing tells."""
    try:
        import psutil

        times = psutil.Process(process).cpu_times()
        return float(times.user + times.system)
    except ImportError:
        pass
    if sys.platform == "win32":
        return None
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return None


def stolen_seconds() -> float | None:
    """CPU time, all cores together, that the host has given to its other guests; None where nothing tells."""
    if sys.platform == "win32":
        return None
    try:
        line = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0]
        return int(line.split()[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
