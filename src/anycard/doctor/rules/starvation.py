"""The card waits: the loader or the storage feeds it too slowly."""

from __future__ import annotations

from anycard.doctor.rule import HINTS, SHOWS, SUGGESTS, Rule, clue, measured, seen, step
from anycard.doctor.shapes import Verdict

_IDLE_CARD = seen(
    r"GPU.?(?:Util\w*|utili[sz]ation).{0,40}(?:\b0 ?%|\blow|\b[1-3]?\d ?%|drops?|fluctuat|spik|idle)",
    r"(?:low|0 ?%|zero|poor|fluctuating) (?:Volatile )?GPU.{0,12}util",
    r"GPU (?:is |sits |stays )?(?:mostly |often )?(?:idle|starv|wait)\w*",
    r"MiB \|\s+[0-9] ?%\s",
)

RULES = (
    Rule(
        slug="gpu-starved-by-dataloader",
        family="starvation",
        verdict=Verdict.APPLICATION,
        says="The data loader feeds the card too slowly: too few workers, or too much work in one process.",
        clues=(
            clue(0.9, r"does not have many workers which may be a bottleneck"),
            clue(0.9, r"num_workers ?= ?[01]\b", _IDLE_CARD),
            clue(
                0.9,
                measured("idle_cpu_busy"),
                seen(r"num_workers", r"data ?loader", r"data(?:_time| time|[-_]loading)\b"),
            ),
            clue(SHOWS, measured("idle_cpu_busy", 50)),
            clue(0.7, measured("idle_cpu_busy")),
            clue(SHOWS, r"(?:increasing|increase|raise|more) (?:the )?(?:value of the )?.?num_workers"),
            clue(
                SHOWS, r"\[?(?:get_train_batch|_TrainingEpochLoop\.train_dataloader_next|train_dataloader_next)\S* .*\|"
            ),
            clue(SHOWS, r"enumerate\(DataLoader\)#_(?:Multi|Single)ProcessingDataLoaderIter"),
            clue(SHOWS, r"[Dd]ata ?loader.{0,80}(?:bottleneck|too slow|starv|slow)"),
            clue(
                SUGGESTS,
                r"(?:one|single|all|100 ?%).{0,20}(?:CPU|core)s?.{0,40}(?:100 ?%|busy|pegged|saturated)",
                _IDLE_CARD,
            ),
            clue(SUGGESTS, r"\bdata(?:_time| time|[-_]loading)\b.{0,20}\d", r"\b(?:batch_time|step_time|time)\b"),
            clue(HINTS, r"\bnum_workers\b"),
            clue(0.55, r"(?:dataloader|DataLoader|data loading|input pipeline)\w*"),
        ),
        separates="If the CPU waits as well, it is the storage.",
        mend=(
            step(
                "Give it workers and prefetch",
                "DataLoader(..., num_workers=8, pin_memory=True, persistent_workers=True, prefetch_factor=4)",
            ),
            step("Move the augmentation to the card, or decode once and keep the result"),
        ),
        next_check="py-spy top --pid PID; nvidia-smi dmon -s u; top -H -p PID",
        authority="https://lightning.ai/docs/pytorch/stable/advanced/speed.html",
    ),
    Rule(
        slug="gpu-starved-by-storage-io",
        family="starvation",
        verdict=Verdict.APPLICATION,
        says="Many small files on slow storage: card and CPU both wait for the disk.",
        clues=(
            clue(
                0.92,
                seen(
                    r"small files",
                    r"(?:NFS|network (?:file ?system|drive|storage)|HDD|spinning|s3fs|gcsfuse|EFS|ceph|lustre)\b",
                    r"every sample opens",
                ),
                seen(*_IDLE_CARD.expressions, r"GPU.{0,40}(?:idle|wait|\b0 ?%|low)", r"iowait", r"slow"),
            ),
            clue(SHOWS, r"\b(?:iowait|%wa|wa,)\b.{0,40}", _IDLE_CARD),
            clue(SHOWS, measured("idle_storage", 50)),
            clue(0.7, measured("idle_storage")),
            clue(SHOWS, r"\d{2,3}\.\d wa[,\s]"),
            clue(SHOWS, r"(?:CPU|cpu)s?.{0,40}(?:also )?(?:mostly )?idle", _IDLE_CARD),
            clue(SUGGESTS, r"\b(?:D|Dl|D\+)\b +\d+:\d\d .*python", _IDLE_CARD),
            clue(0.5, r"\b(?:iowait|I/O wait|disk I/O|slow disk)\b"),
        ),
        explains=("gpu-starved-by-dataloader", "ok-utilisation-below-100"),
        mend=(
            step("Pack the samples into few large files (tar shards, Parquet, LMDB)"),
            step("Copy them to a local SSD first", "anycard job file: file_mounts"),
        ),
        next_check="iostat -x 2 5; nvidia-smi dmon -s u -c 5",
        authority="https://webdataset.github.io/webdataset/",
    ),
)
