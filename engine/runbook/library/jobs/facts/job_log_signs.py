"""The table of signs in a training's log: each line may be a sign of a cause, a consequence, or an end."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from runbook.library.jobs.facts.process_ends import (
    ABRT,
    BUS,
    CODE,
    FPE,
    HUP,
    ILL,
    KILL,
    SEGV,
    TERM,
    by_signal,
    coded,
    ended_by,
)

_NO_NUMBER = "nan|inf(?:inite)?|no[nt][- ]?finite"
_IS = " (?:is|are|was|bec[ao]me|went|of)(?: to)? "
_ERROR = r"\S*[a-z](?:error|exception)"


NO_NAME = "name or service not known|failure in name resolution|nodename nor servname"
"""Words of a name of a host that no name server knows."""


class Role(Enum):
    """The importance of a sign among others."""

    CAUSE = "cause"
    """The sign explains the end, wherever it is."""
    GENERIC = "generic"
    """The sign explains the end if it comes before the first consequence; after it, the sign is itself a
    consequence.
    """
    CONSEQUENCE = "consequence"
    """The line reports that others failed."""
    WEAK = "weak"
    """The sign is as often a warning as a cause: it explains the end only if its log has no consequence."""
    TRACE = "trace"
    """The line says that something failed, but not what."""


class Raised(NamedTuple):
    """An error whose meaning is in the frames of its traceback; both are regular expressions, in small letters."""

    error: str
    frame: str


class Sign(NamedTuple):
    """An entry of the table of signs."""

    name: str
    role: Role
    patterns: tuple[str, ...]
    """Regular expressions for a line; upper and lower case are ignored."""
    passed_over: str = ""
    """Words that make a line no sign: a training goes on after a step or a file that it skips, and after a warning."""
    raised: tuple[Raised, ...] = ()
    """Errors that are this sign where they were raised, as the frames of their traceback say."""


_CONNECTION = r"^(?!.*\bhttp).*\b(?:connection ?(?:reset|refused|closed|aborted)|broken ?pipe|timed out)"

SIGNS = (
    Sign("nvlink", Role.CAUSE, (
        r"uncorrectable nvlink|nvlink_?uncorrectable|nvlink.{0,20}\b(?:fatal|uncorrectable)\b",
        r"\bcuda(?: runtime| driver)?(?: api)?[ _]?(?:error|result|status|failure)\W{0,4}(?:code\W{0,3})?220\b",
    )),
    Sign("ecc", Role.CAUSE, ("uncorrectable ecc|ecc_?uncorrectable",)),
    Sign("limit", Role.CAUSE, (
        r"srun: error: .{0,80}: out of memory|detected \d+ oom[-_ ]kill events?|cgroup out-of-memory handler",
        r"some of the (?:step )?tasks have been oom killed|due to the node running low on memory|term_memlimit",
        r"worker exceeded \d+% memory budget|memory budget.{0,40}(?:restart|terminat)|\boomkilled\b(?!\W{1,4}false)",
    )),
    Sign("ended", Role.CAUSE, (
        r"slurmstepd: error: \*\*\* .*cancelled at|due to (?:time limit|preemption|node fail)",
        r"received sigterm|received (?:2|15) death signal|got signal: (?:2|15)\b|keyboardinterrupt",
        r"\bterm_(?:runlimit|owner|preempt|cpulimit)\b|\bevicted\b",
        r"pbs: job killed|job killed: walltime|walltime \d+ exceeded",
        r"(?:job|task|instance|node|pod) (?:is|was|has been|will be|being) (?:\w+ )?preempt(?!ed/)",
        r"\b(?:job|task|instance|node|pod|vm)\b.{0,30}\bpreempted\b(?! by preemptionmode|/|,? or\b)",
        r"requeued? job|job requeued",
        r"caught (?:signal )?(?:sighup|sigterm|sigusr[12]|sigint)",
        r"(?:received|got|handling) (?:signal:? (?:15|2|term|int|sigterm|sigint)|sigterm|sigint)\b",
        r"spot instance interruption|maintenance event.{0,40}terminat",
    )),
    Sign("hangup", Role.CAUSE, (r"received 1 death signal|got signal: 1$|signal 1 \(sighup\)", *coded(HUP))),
    Sign("quota", Role.CAUSE, (r"disk quota exceeded|\[errno 122\]|edquot",)),
    Sign("no_space", Role.CAUSE, (r"no space left on device|\[errno 28\]|enospc",)),
    Sign("launch", Role.CAUSE, (
        "task launch for .{0,60}failed on node|application launch failed|unable to create step for job",
        "slurm(?:d|stepd): error: .{0,60}(?:launch failed|prolog failed)|failed to launch .{0,40}on node",
    )),
    Sign("memlock", Role.CAUSE, (
        r"\b(?:ibv_\w+|net/(?:ofi|ib)|libfabric|rdma|verbs)\b.{0,160}cannot allocate memory",
        r"memlock|max locked memory|locked[- ]memory limit|limit of locked memory",
    )),
    Sign("unwritten", Role.CAUSE, (
        r"file write failed|pytorchstreamwriter failed|unexpected pos \d+ vs|\bfile \S+ cannot be opened",
        r"\[errno (?:5|13|30|107|116|121)\]|read-only file system|stale file handle|write\(\): fd \d+ failed",
        r"resourceexhaustederror\b.{0,40}: \S{0,200}/\S|\bfile too large\b",
        r"(?:os|io)error\b.{0,80}(?:input/output error|remote i/o error|transport endpoint is not connected)",
    )),
    Sign("gpu_memory", Role.CAUSE, (
        r"cuda out of memory|(?<!lang\.)outofmemoryerror|oom when allocating tensor|no available memory for the cache",
        r"larger than the (?:available kv cache memory|maximum number of tokens that can be stored in kv cache)",
        r"free memory on device.{0,120}less than|hip out of memory",
        r"cuda failure .{0,6}out of memory|cuda (?:runtime |driver )?error\b.{0,200}\bout of memory",
        r"cuda_error_out_of_memory|failed to cuda (?:calloc|malloc)",
        "cublas_status_alloc_failed|resource_exhausted: out of memory|ran out of memory in memory space",
        r"\b(?:cuda|hip)_?(?:malloc|hostalloc)\w*\b.{0,60}\bout of memory",
        r"unable to allocate (?:cuda|rocm|hip|vulkan|gpu)\w* buffer|\bout of (?:device|gpu|video) memory",
    )),
    Sign("host_memory", Role.CAUSE, (
        r"std::bad_alloc|\bmemoryerror(?::|$)|defaultcpuallocator: .{0,20}allocate memory|_arraymemoryerror",
        r"\[errno 12\]|\bnot enough memory: you tried to allocate|fork: cannot allocate memory",
    )),
    Sign("ulimit", Role.CAUSE, ("too many open files|items of ancdata|rlimit_nproc|can.t start new thread",)),
    Sign("port", Role.CAUSE, (r"address already in use|\[errno 98\]|\(os error 98\)|eaddrinuse",)),
    Sign("busy", Role.CAUSE, (r"cuda-capable devices? ?(?:\(s\))? ?(?:is/)?are busy or unavailable",)),
    Sign("no_code", Role.CAUSE, (
        "no kernel image is available|cudaerrornokernelimage|is not compatible with the current pytorch installation",
        r"(?:ptxas|nvcc) fatal.{0,80}(?:not defined for option 'gpu-name'|unsupported gpu architecture)",
        "ptx was compiled with an unsupported toolchain|cuda_error_no_binary_for_gpu|invalid device function",
    )),
    Sign("driver", Role.CAUSE, (
        "nvidia driver on your system is too old|cuda driver version is insufficient|no cuda gpus are available",
        "no cuda-capable device|found no nvidia driver|invalid device ordinal|system not yet initialized",
        "not supported in the installed cuda driver|forward compatibility was attempted on non supported",
    )),
    Sign("nccl", Role.CAUSE, (
        r"duplicate gpu detected|peer access is not supported",
        r"\bnvls\.cc.{0,40}nccl warn|nccl error .{0,160}invalid usage",
        r"nccl warn .{0,40}\bbind\b.{0,40}fail|no socket interface found|bootstrap : no .{0,40}interface",
        r"call to bind .{0,60}failed|cannot assign requested address",
    )),
    Sign("bus", Role.CAUSE, (*ended_by(BUS), r"(?<!pcie )\bbus error|(?<!due to )sigbus")),
    Sign("assertion", Role.CAUSE, (
        r"\.cuh?:\d+: (?!.{0,300}(?:\bind(?:ex)?\b|index|\bind(?:ex)?_?\w* ?[<>]|out of (?:bounds|range)))"
        r".{0,200}\bassertion\b.{0,200}\bfailed",
    )),
    Sign("index", Role.CAUSE, (
        r"device-side assert triggered|assertion .{0,160}(?:index|ind(?:ex)?_?\w* ?[<>]).{0,160} failed",
        r"\bindexing\.cu.{0,120}assertion",
        r"\bassert(?:ion)?\b.{0,160}out of (?:bounds|range)",
    )),
    Sign("cuda", Role.CAUSE, (
        "illegal memory access|unspecified launch failure|misaligned address|illegal instruction was encountered",
        r"cuda_error_(?:launch_failed|illegal_address)|cudnn_status_\w*error",
        r"cublas_status_(?:internal_error|execution_failed)",
    )),
    Sign("network", Role.CAUSE, (
        r"got completion .{0,120}(?:status=1[23]\b|error 1[23]\b)|retry counter exceeded|ibv_wc_(?:rnr_)?retry",
        r"\bibv_(?:modify|create)_qp\b.{0,40}\bfail.{0,40}(?:\b110\b|timed out|unreachable|no route)",
    )),
    Sign("queue_pair", Role.CAUSE, (
        r"\bibv_(?:(?:modify|create)_qp|open_device|alloc_pd|reg_mr\w*|create_cq)\b.{0,60}\bfail",
    )),
    Sign("numbers", Role.CAUSE, (
        r"loss scale already at minimum|minimum loss scale reached|found (?:inf|nan) (?:in|value)",
        r"nans? (?:loss )?(?:was |were )?(?:detected|found|appeared)",
        rf"(?:loss|grad\w*(?: norm)?){_IS}(?:{_NO_NUMBER})\b.{{0,40}}(?:stop|abort|exit|terminat|$)",
        rf"(?:error|exception): .{{0,60}}\b(?:loss\w*|grad\w*|norm)\b.{{0,80}}{_IS}(?:{_NO_NUMBER})\b",
        rf"loss\w*{_IS}(?:infinite or nan|nan or inf(?:inite)?)\b",
        "loss returned in .{1,40} is (?:nan|inf)",
        r"(?:detected|found|encountered|got) (?:a )?(?:nan|inf|non-?finite)\b|\bloss contains an? nan\b",
        r"non-?finite (?:loss|grad\w*)|(?:nan|inf) loss\b|nanlossduringtraining|model diverged with loss",
        r"(?:loss(?:es)?|gradients?) (?:ha(?:s|ve) |is |are |was )?(?:exploded|overflowed|diverged)\b",
        "invalid loss, terminat",
        r"probability tensor contains either|tensor had (?:inf|nan)\b|invalid value \(nan\) encountered",
        r"returned nan values in its",
    ), passed_over=r"\bskip|\bignor"),
    Sign("hung", Role.CAUSE, (r"watchdog timeout \(self\.watchdog_timeout",)),
    Sign("node_lost", Role.CONSEQUENCE, (
        r"its node has died|owner.s node has crashed",
        r"\borte has lost communication with a remote daemon|\borte daemon has unexpectedly failed",
        r"node .{0,160}marked (?:as )?dead|raylet(?!\) ).{0,40}(?:died|exited)",
    )),
    Sign("worker", Role.CONSEQUENCE, (
        "error executing method|actor(?:died|unavailable)error|workercrashederror|a worker died or was killed",
        "enginedeaderror|engine ?core.{0,80}(?:died|dead|failed)|actor is dead because|actor died unexpectedly",
        r"potential root causes?|unexpectedly due to sig|worker (?:process )?(?:\d+ )?died unexpectedly",
        r"dataloader worker .{0,30}is killed by signal: abort",
        r"exception in worker \w*(?:process|worker)\w*",
        r"\bworkers? (?:process(?:es)? )?(?:\([^)]{1,80}\) )?(?:is|are) (?:no longer|not) (?:alive|running)",
        r"\bworker\b.{0,60}\b(?:unexpectedly|abruptly) (?:died|exited|terminated|stopped)",
        r"\bworker\b.{0,60}\b(?:died|exited|terminated|stopped) (?:unexpectedly|abruptly)|terminatedworkererror",
    ), raised=(Raised(r"^eoferror\b", r"/multiprocess(?:ing)?/|/batchgenerators/"),)),
    Sign("killed", Role.CAUSE, (*ended_by(KILL), r"signals\.sigkill|\(sigkill\)|died unexpectedly .{0,40}sigkill")),
    Sign("segfault", Role.CAUSE, (*ended_by(SEGV), r"segmentation fault|(?<!due to )sigsegv")),
    Sign("illegal", Role.CAUSE, (*ended_by(ILL), r"illegal instruction(?! was encountered)|\bsigill\b")),
    Sign("not_there", Role.CAUSE, (
        r"can.t open file .{1,200}\[errno 2\]|\b(?:ba|da|z)?sh: (?:line \d+: |\d+: )?\S{1,200}: (?:command )?not found",
        r"\b(?:ba|da|z)?sh: (?:line \d+: |\d+: )?\S{1,200}: no such file or directory",
    )),
    Sign("watchdog", Role.CONSEQUENCE, (
        "watchdog got stuck|heartbeat monitor timed out|watchdog thread .{0,40}stuck",
    )),
    Sign("stalled", Role.CONSEQUENCE, (
        r"\bstalled ranks: *\d|\bmissing[_ ]ranks\W{1,4}\d|\[ready ranks: *\d",
        r"\branks?\b[^a-z]{0,80}\b(?:is|are) the lagging|\b(?:lagging|dead|stalled|missing) ranks?\b.{0,60}[:=] *\W?\d",
        r"\branks? [\d, \[\]]{1,80}(?:failed to pass monitoredbarrier|joined but didn.t finish)",
        r"\branks? [\d, \[\]]{1,80}(?:(?:did|has|have) ?n[o']t|never) (?:yet )?(?:join|reach|arriv|submit|enter)",
        r"\bwaiting (?:for|on) (?:the )?(?:remaining|missing) ranks? ?[:\[ ]{1,3}\d",
    )),
    Sign("collective", Role.CONSEQUENCE, (
        "watchdog caught collective operation timeout",
        "(?:collective|global) timeout from +(?:another |this local )?rank",
        "collective operation timeout: worknccl|failure detected by watchdog at work sequence",
    )),
    Sign("rendezvous", Role.CAUSE, (
        r"client socket has timed out|rendezvous\w*error",
        r"connection to the c10d store|barrier timed out|getting socket times out",
        "failed to connect to the? ?(?:tcpstore|c10d)",
        r"valueerror: host not found|^(?!.{0,40}\[w).{0,200}\(gai error: -[235]\b|call to getaddrinfo .{0,80}failed",
        rf"\b(?:gloo|c10d|tcpstore|rendezvous|coordinat\w+|init_process_group)\b.{{0,90}}(?:{NO_NAME})",
        "ssh: could not resolve hostname",
    ), raised=(
        Raised(
            rf"^(?!.*\bhttp).*(?:gaierror|getaddrinfo|host not found|{NO_NAME})",
            r"torch/distributed/|/rendezvous|distributed_c10d|jax/_src/distributed|deepspeed/comm|horovod/|/gloo",
        ),
        Raised(
            _CONNECTION,
            r"/rendezvous|in (?:_?init_process_group|_create_\w*store|init_distributed)$|jax/_src/distributed",
        ),
    )),
    Sign("peer_gone", Role.CONSEQUENCE, (
        r"heartbeat timeout\. this indicates|connection closed by remote peer|ncclremoteerror",
        r"\bsocketstartconnect: connect to \S{1,80} (?:.{0,60} )?failed",
        r"jax distributed service detected fatal errors|socketpollconnect: connect to \S{1,80} returned",
        "remote process exited|no route to host|connection closed by (?:local )?peer",
        "commclosederror|communicator was aborted",
    ), raised=(
        Raised(_CONNECTION, r"torch/distributed/|distributed_c10d|deepspeed/comm|horovod/|/gloo"),
    )),
    Sign("terminated", Role.CONSEQUENCE, (
        *coded(TERM), r"signal 15 \(sigterm\)|(?<!s of )\bsignal 15\b", by_signal(TERM)[0], by_signal(TERM)[5],
    )),
    Sign("rollout", Role.CAUSE, (
        r"(?:timeouterror|timed out)\b.{0,120}\b(?:rollout|generat)",
        r"(?:rollout|generat)\w*\b.{0,80}(?:timeout (?:after|expired)|timeouterror|timed out)",
    )),
    Sign("program", Role.CAUSE, (r"raytaskerror\((?!actor|worker)\w+",)),
    Sign("executor", Role.WEAK, ("brokenprocesspool|process pool was terminated|brokenexecutor",)),
    Sign("access", Role.CAUSE, (r"gated repo|(?:401|403) client error|invalid user token|repository not found",)),
    Sign("mismatch", Role.CAUSE, (r"size mismatch for |error\(s\) in loading state_dict",)),
    Sign("broken", Role.CAUSE, ("pytorchstreamreader failed|failed finding central directory|archive is corrupted",)),
    Sign("tracker", Role.WEAK, (r"wandb\.\S*error|commerror|\berror mlflow\b",)),
    Sign("server_gone", Role.WEAK, (
        "connection refused|serverdisconnected|clientconnectorerror|connection reset|remotedisconnected",
        "remote end closed|connection aborted",
    )),
    Sign("timeout", Role.WEAK, (
        r"timeouterror|timeout waiting|timed out|timeout=120|operation timeout|timeout\) detected by watchdog",
    )),
    Sign("nccl_system", Role.WEAK, (r"nccl(?:system|internal)error|unhandled system error",)),
    Sign("nccl_call", Role.GENERIC, (
        r"ncclunhandledcudaerror|unhandled cuda error|ncclinvalid(?:usage|argument)|nccl warn .{0,40}cuda failure",
        r"\bnccl operation .{0,160}? failed: |\bnccl[a-z]{3,30}(?:\([^()]{0,120}\))? failed: ",
    )),
    Sign("child", Role.TRACE, (r"childfailederror",)),
    Sign("setting", Role.GENERIC, (
        r"(?:error|exception): .{0,200}\b(?:not|n't) (?:be )?(?:evenly )?divisible by\b",
        r"(?:error|exception): .{0,200}\b(?:must|should|has to|needs to) be (?:\w+ )?(?:divisible by|a multiple of)",
        r"error: (?:argument .{1,60}: (?:invalid|expected)|unrecognized arguments|ambiguous option)",
        "error: the following arguments are required",
        r"\bno such (?:option|command)(?:: | ')|(?:^|: )(?:unknown|invalid|unrecognized) (?:sub-?)?command\b",
        r"arguments are not used by the hfargumentparser|trainingarguments.{0,20}got an unexpected keyword argument",
        r"config(?:attribute|key|type|value)error: |missingmandatoryvalue|could not override '|missingconfigexception",
        r"\b\d+ validation errors? for (?!\w*(?:request|response|message))\w|train_batch_size is not equal to",
    ), passed_over="warn", raised=(
        Raised(r"^keyerror: '[\w-]+'", r"/cli/|/cli\.py|/commands?/|/commands?\.py"),
    )),
    Sign("data", Role.GENERIC, (
        "unidentifiedimageerror|cannot identify image file|image file is truncated",
        "broken data stream when reading image",
        r"arrowinvalid: |parquet magic bytes not found|parquet file size is \d+ bytes|datasetgenerationerror",
        r"datalosserror|corrupted record at|mdb_(?:corrupted|page_notfound|invalid)|file signature not found",
    ), passed_over=r"\bskip|\bignor|warn", raised=(
        Raised(
            r"^(?:\w+\.)*(?:jsondecodeerror|unicodedecodeerror|filenotfounderror|notadirectoryerror)\b",
            r"/datasets?/|dataset\w*\.py|data_?load\w*(?:/|\.py)|/utils/data/",
        ),
    )),
    Sign("error", Role.GENERIC, (
        r"\bterminate called after throwing|\bpanicked at\b|^panic: ",
        rf"^(?!\S*childfailederror){_ERROR}(?::|$)", r"(?<!gai )\b(?:error|exception): |\bfatal\b",
    )),
    Sign("exit", Role.TRACE, (
        rf"{CODE}(?:is |was |of )?-?(?!0\b)\d+\b|exits with return code = [1-9]",
        r"failed \(exitcode|non-zero (?:exit|status)",
        *ended_by(ABRT, FPE), r"core dumped|aborted\b",
    )),
    Sign("traceback", Role.TRACE, (r"(?:^|\])traceback \(most",)),
)  # fmt: skip
"""In the order of their strength; a line is a sign of the first row that it matches."""

AFTER_ALL = (
    "brokenpipe|connection(?:reset|aborted|refused)|eoferror|keyboardinterrupt|systemexit|cancellederror|interruptederror",
    "bad file descriptor|event loop is closed|after (?:interpreter )?shutdown|is killed by signal|resource_tracker",
    "destroy_process_group|tcpstore|distnetworkerror|nccl",
)
"""Words of an error of the shutdown itself: connections that close, threads and workers that are ended."""

UNSAVED = ("quota", "no_space", "unwritten")
"""Signs that still count after the end of the training: its result may not be on the disk."""

ENDS = (
    r"training (?:is |was |has )?(?:completes|completed?|finished|done)\b",
    r"(?:finished|completed|done) training\b(?! (?:on|for )?(?:epoch|step|batch|iter))",
    r"training stopped early|restoring model weights from the end of the best epoch",
    r"max_(?:epochs|steps)=\d+\W{1,2} reached",
    r"\btrain_steps_per_second\b|\"percentage\": 100(?:\.0+)?\b",
    r"training (?:has |was |is )?successfully (?:completed|finished|ended)",
    r"successfully (?:completed|finished) (?:the )?training",
    r"exiting program (?:after|at)\b|\b\d+ epochs completed in\b|trainer finished\b",
    r"orchestrator finished\b|reached (?:max_steps|max steps|the last step)",
    r"final validation metrics|end time of running main|(?:train\w* progress|steps): +100%\|",
    r"job '[^']{1,80}' succeeded|job (?:\S+ )?(?:finished|completed) successfully",
)  # fmt: skip
"""Words by which a training says that it has ended by itself."""

SERVER_ENDS = (r"\bapplication shutdown complete\b|\bfinished server process \[\d+\]",)
"""Words by which an inference server says that it was asked to end; after an error they say only that it has ended."""

SOFT_ENDS = (
    rf"{CODE}(?:is |was |of )?0\b|\bcode 0\b|\bstate\W{{1,3}}completed\b",
    r"\bprocess \d+ exits successfully",
    r"jobstate=completed|status\W{1,3}succeeded\b",
    r"\b(?:step|iter(?:ation)?)s?\W{1,3}(?P<now>\d+) ?(?:/|of) ?(?P<all>\d+)\b",
    r"^(?P<label>[^|%]{0,40}?) *100%\|.{0,200}?\| *(?P<now>\d+)/(?P<all>\d+)",
)
"""Signs of an end that count where nothing failed before or after them."""

_JOB = (
    r"torch\w*|cuda\w*|nccl\w*|local_rank|rank ?\d+|srun|slurm\w*|deepspeed|megatron\w*|accelerate|transformers"
    r"|vllm|sglang|prime[-_]rl|openrlhf|verl|areal|ray|jax|tensorflow|lightning|trainer|train(?:ing)?(?:_\w+)?|gpus?"
)


RAISED = r"^(?:\[?[Rr]ank ?\d+\]?:? *|E +)?(?:RuntimeError|FloatingPointError): "
"""The line of an exception as numerical programs raise it, alone."""


def of_a_job(pattern: str) -> str:
    """*pattern*, in a line with a word of training or inference, or a few lines before one."""
    return rf"(?i)^(?=(?:.*\n){{0,40}}?.*\b(?:{_JOB})\b).*?(?:{pattern.replace('^', '')})"
