/* sandbox.c - a filter of system calls, written as the machine has it (see sandbox.h)
 *
 * The list names what is denied, not what is allowed: the C library, GnuTLS, SQLite and libpq make
 * other calls with each version, and a server that is killed for a harmless new one is worse off
 * than one without this. A unit of systemd may allow less on top of it (share/quipu.service).
 *
 * The filter: another architecture's numbering ends the process, since its numbers mean other
 * calls; then one comparison per number of the list.
 */
#include "server/sandbox.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#define FOREIGN_NUMBERS 0x40000000U /* x32 has numbers of its own from here on */
#elif defined(__aarch64__)
#define OWN_ARCH AUDIT_ARCH_AARCH64
#define FOREIGN_NUMBERS UINT32_MAX
#endif

static const unsigned denied[] = {
    /* other programs and processes */
    SYS_execve, SYS_execveat, SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp,
    SYS_personality,
#ifdef SYS_fork
    SYS_fork, SYS_vfork,
#endif
    /* file systems and what is around us */
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_setns, SYS_unshare, SYS_swapon,
    SYS_swapoff, SYS_quotactl, SYS_open_by_handle_at,
    /* users and rights */
    SYS_setuid, SYS_setgid, SYS_setreuid, SYS_setregid, SYS_setresuid, SYS_setresgid, SYS_setfsuid,
    SYS_setfsgid, SYS_setgroups, SYS_capset,
    /* the kernel */
    SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_kexec_file_load,
    SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_add_key, SYS_request_key, SYS_keyctl,
    SYS_reboot, SYS_syslog, SYS_acct,
#ifdef SYS_iopl
    SYS_iopl, SYS_ioperm, SYS_modify_ldt,
#endif
    /* its clock and its name */
    SYS_settimeofday, SYS_clock_settime, SYS_adjtimex, SYS_clock_adjtime, SYS_sethostname,
    SYS_setdomainname};

#define DENIED_COUNT (sizeof denied / sizeof denied[0])
#define HEAD_COUNT 5
#define FILTER_COUNT (HEAD_COUNT + 2 * DENIED_COUNT + 1)

#ifdef OWN_ARCH

static const struct sock_filter deny = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);

static void write_filter(struct sock_filter out[FILTER_COUNT])
{
    const struct sock_filter head[HEAD_COUNT] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 1, 0),
        deny,
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        /* past the first comparison below, to its denial */
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FOREIGN_NUMBERS, 1, 0),
    };
    size_t n = HEAD_COUNT;
    memcpy(out, head, sizeof head);
    for (size_t i = 0; i < DENIED_COUNT; i++) {
        out[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, denied[i], 0, 1);
        out[n++] = deny;
    }
    out[n] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
}

int sandbox_enter(struct qp_err *err)
{
    struct sock_filter filter[FILTER_COUNT];
    struct sock_fprog program = {.len = FILTER_COUNT, .filter = filter};
    write_filter(filter);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) {
        return err_set(err, QP_E_UNSUPPORTED, "sandbox: the system refuses it: %s",
                       strerror(errno));
    }
    return QP_OK;
}

#else

int sandbox_enter(struct qp_err *err)
{
    return err_set(err, QP_E_UNSUPPORTED, "sandbox: not on this kind of processor");
}

#endif
