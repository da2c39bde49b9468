"""The seccomp profile for containers: an allow-list like Docker's own, but stricter.

It additionally refuses AF_VSOCK sockets (they reach the hypervisor from any network namespace), AF_ALG and other rare
families, io_uring (it bypasses seccomp filters), and 32-bit system calls (whose `socketcall` cannot be filtered by
family). As in Docker's profile, kernel keyrings, namespaces, mounts, modules, BPF and performance counters are refused.

A container with sandboxes of its own needs namespaces and mounts: `seccomp_profile(nested=True)` allows these, and the
kernel lets an ordinary user make mounts only in a user namespace of its own. It is `configs/docker/seccomp.json`.
"""

import functools
import json
import socket
from typing import Any

_ALLOWED = """
accept accept4 access alarm arch_prctl bind brk cachestat capget capset chdir chmod chown clock_getres clock_gettime
clock_nanosleep close close_range connect copy_file_range creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl
epoll_pwait epoll_pwait2 epoll_wait eventfd eventfd2 execve execveat exit exit_group faccessat faccessat2 fadvise64
fallocate fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr flistxattr flock fork fremovexattr
fsetxattr fstat fstatfs fsync ftruncate futex futex_requeue futex_wait futex_waitv futex_wake futimesat
get_robust_list get_thread_area getcpu getcwd getdents getdents64 getegid geteuid getgid getgroups getitimer
getpeername getpgid getpgrp getpid getppid getpriority getrandom getresgid getresuid getrlimit getrusage getsid
getsockname getsockopt gettid gettimeofday getuid getxattr getxattrat inotify_add_watch inotify_init inotify_init1
inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit ioctl ioprio_get ioprio_set kill
landlock_add_rule landlock_create_ruleset landlock_restrict_self lchown lgetxattr link linkat listen listxattr
listxattrat llistxattr lremovexattr lseek lsetxattr lstat madvise map_shadow_stack membarrier memfd_create mincore
mkdir mkdirat mknod mknodat mlock mlock2 mlockall mmap modify_ldt mprotect mq_getsetattr mq_notify mq_open
mq_timedreceive mq_timedsend mq_unlink mremap mseal msgctl msgget msgrcv msgsnd msync munlock munlockall munmap
nanosleep newfstatat open openat openat2 pause pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free
pkey_mprotect poll ppoll prctl pread64 preadv preadv2 prlimit64 process_mrelease process_vm_readv process_vm_writev
pselect6 ptrace pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv recvfrom recvmmsg recvmsg
remap_file_pages removexattr removexattrat rename renameat renameat2 restart_syscall rmdir rseq rt_sigaction
rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo
sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler
sched_rr_get_interval sched_setaffinity sched_setattr sched_setparam sched_setscheduler sched_yield seccomp select
semctl semget semop semtimedop sendfile sendmmsg sendmsg sendto set_robust_list set_thread_area set_tid_address
setfsgid setfsuid setgid setgroups setitimer setpgid setpriority setregid setresgid setresuid setreuid setrlimit setsid
setsockopt setuid setxattr setxattrat shmat shmctl shmdt shmget shutdown sigaltstack signalfd signalfd4 socketpair
splice stat statfs statx symlink symlinkat sync sync_file_range syncfs sysinfo tee tgkill time timer_create
timer_delete timer_getoverrun timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime times tkill
truncate umask uname unlink unlinkat utime utimensat utimes vfork vmsplice wait4 waitid write writev
"""
_NESTED = """
chroot clone mount mount_setattr move_mount open_tree pivot_root setdomainname sethostname setns umount2 unshare
"""
_FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
_PERSONALITIES = (0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)  # Linux, its 32-bit and uname 2.6 variants, and the query value
_NEW_NAMESPACES = 0x7E020000  # all CLONE_NEW* flags of clone
_LOW_HALF = 0xFFFFFFFF  # of an argument: the kernel reads only this half of an int
_ENOSYS = 38  # clone3 hides its flags from a filter; the C library falls back to clone


@functools.cache
def seccomp_profile(*, nested: bool = False) -> str:
    """The profile as JSON, for `seccomp=` in a container's security options. Calls not listed in it get EPERM.

    `nested`: for a container that starts sandboxes itself."""
    rules = [
        _allow(_ALLOWED.split()),
        *(_allow(["socket"], _LOW_HALF, family) for family in _FAMILIES),
        *(_allow(["personality"], _LOW_HALF, value) for value in _PERSONALITIES),
        _allow(_NESTED.split()) if nested else _allow(["clone"], _NEW_NAMESPACES, 0),
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": _ENOSYS},
    ]
    machines: list[dict[str, Any]] = [
        {"architecture": name, "subArchitectures": []} for name in ("SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64")
    ]
    return json.dumps({"defaultAction": "SCMP_ACT_ERRNO", "archMap": machines, "syscalls": rules})


def _allow(names: list[str], mask: int = 0, value: int = 0) -> dict[str, Any]:
    """A rule that allows calls, optionally only if their first argument under `mask` is `value`."""
    condition = {"index": 0, "value": mask, "valueTwo": int(value), "op": "SCMP_CMP_MASKED_EQ"}
    return {"names": names, "action": "SCMP_ACT_ALLOW", "args": [condition] if mask else []}
