"""The public interface of a corpus: open one, and add, lease, report, explain, plan and export.

Names are imported when they are first used.  A command chooses how kernels run before it loads
any of them, and `recrawl.corpus.folder_size` helps it choose.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recrawl.corpus.aio import AsyncCorpus
    from recrawl.corpus.backups.backup import (
        BACKUPS_KEPT,
        BackupCheck,
        BackupResult,
        back_up_corpus,
        check_backups,
    )
    from recrawl.corpus.backups.restore import Restored, restore_corpus
    from recrawl.corpus.backups.restore_at import RestoredAt, restore_corpus_at
    from recrawl.corpus.compiling import (
        COMPILE_TIME_TEXT,
        COMPILED_ABOUT,
        compile_all,
        is_compiled,
        record_compiled,
    )
    from recrawl.corpus.corpus import Corpus
    from recrawl.corpus.doctor import (
        check_corpus,
        repair_corpus,
        repair_from_backup,
    )
    from recrawl.corpus.doctor.check_results import CheckResult, Severity
    from recrawl.corpus.doctor.overview_part import OverviewPart, read_overview_part
    from recrawl.corpus.export_rows import EXPORT_SCHEMA
    from recrawl.corpus.folder_size import (
        bytes_to_replay,
        data_bytes,
        has_parts_of_corpus,
        is_corpus_folder,
        is_log_remote,
    )
    from recrawl.corpus.forgetting.forget import Forgotten, forget_states
    from recrawl.corpus.holdout.confidence import Difference
    from recrawl.corpus.holdout.experiment import HoldoutArm, HoldoutView
    from recrawl.corpus.import_crawl import CrawlImport, ImportCounts
    from recrawl.corpus.inspect.beliefs import BelievedPages
    from recrawl.corpus.inspect.explanation import PageExplanation
    from recrawl.corpus.inspect.hosts import newcomers_words
    from recrawl.corpus.inspect.page_table import PAGE_COLUMNS
    from recrawl.corpus.monitoring.metrics import CorpusMetrics
    from recrawl.corpus.opening import open_corpus, present_config
    from recrawl.corpus.past.explanation_rows import explanation_of_answer, explanation_rows
    from recrawl.corpus.past.explanation_text import explanation_words
    from recrawl.corpus.past.page_history import PageHistory
    from recrawl.corpus.past.page_timeline import text_key, text_timeline, timeline_svg
    from recrawl.corpus.plan.corpus_plan import CorpusPlan
    from recrawl.corpus.plan.curve import KindPlan, Plan
    from recrawl.corpus.plan.hosts import HostPlan
    from recrawl.corpus.plan.rows import (
        PlanTable,
        budget_table,
        current_budget_row,
        host_table,
        kind_rows,
        kind_table,
        plan_chart,
        slow_host_table,
        useful_budgets,
    )
    from recrawl.corpus.plan.targets import Target, TargetAnswer
    from recrawl.corpus.plan.text import (
        Amounts,
        ceiling_words,
        delay_words,
        doubt_words,
        next_goal,
        plan_words,
        target_words,
        together_words,
    )
    from recrawl.corpus.resize.resizing import Resized, resize_corpus
    from recrawl.corpus.wrong_answers import wrong_answer_words
    from recrawl.messages.enums import Transition, Why
    from recrawl.messages.leases import (
        LeasedUrl,
        LeasedUrls,
        Orders,
        Shortfall,
        ShortfallReason,
        reason_text,
    )
    from recrawl.messages.orders import Order, Outcome
    from recrawl.messages.results import Added, CountedRows, Reported, RowStatus, Signalled
    from recrawl.messages.samples import (
        Figures,
        Histogram,
        Sample,
        Samples,
        SourceFigures,
        SourceSamples,
    )
    from recrawl.messages.views import (
        AuditRow,
        AuditTable,
        Consumer,
        HostTable,
        HostView,
        LastChange,
        PageChange,
        PageRows,
        Passage,
        PassageChanges,
        SourceRow,
        SourceTable,
        Stats,
    )
    from recrawl.node.clock import Clock, SystemClock
    from recrawl.node.config.corpus_config import CorpusConfig
    from recrawl.node.records import FirstRequestKey, RequestKey
    from recrawl.node.settings.pages import PageSettings

__all__ = [
    "BACKUPS_KEPT",
    "COMPILED_ABOUT",
    "COMPILE_TIME_TEXT",
    "EXPORT_SCHEMA",
    "PAGE_COLUMNS",
    "Added",
    "Amounts",
    "AsyncCorpus",
    "AuditRow",
    "AuditTable",
    "BackupCheck",
    "BackupResult",
    "BelievedPages",
    "CheckResult",
    "Clock",
    "Consumer",
    "Corpus",
    "CorpusConfig",
    "CorpusMetrics",
    "CorpusPlan",
    "CountedRows",
    "CrawlImport",
    "Difference",
    "Figures",
    "FirstRequestKey",
    "Forgotten",
    "Histogram",
    "HoldoutArm",
    "HoldoutView",
    "HostPlan",
    "HostTable",
    "HostView",
    "ImportCounts",
    "KindPlan",
    "LastChange",
    "LeasedUrl",
    "LeasedUrls",
    "Order",
    "Orders",
    "Outcome",
    "OverviewPart",
    "PageChange",
    "PageExplanation",
    "PageHistory",
    "PageRows",
    "PageSettings",
    "Passage",
    "PassageChanges",
    "Plan",
    "PlanTable",
    "Reported",
    "RequestKey",
    "Resized",
    "Restored",
    "RestoredAt",
    "RowStatus",
    "Sample",
    "Samples",
    "Severity",
    "Shortfall",
    "ShortfallReason",
    "Signalled",
    "SourceFigures",
    "SourceRow",
    "SourceSamples",
    "SourceTable",
    "Stats",
    "SystemClock",
    "Target",
    "TargetAnswer",
    "Transition",
    "Why",
    "back_up_corpus",
    "budget_table",
    "bytes_to_replay",
    "ceiling_words",
    "check_backups",
    "check_corpus",
    "compile_all",
    "current_budget_row",
    "data_bytes",
    "delay_words",
    "doubt_words",
    "explanation_of_answer",
    "explanation_rows",
    "explanation_words",
    "forget_states",
    "has_parts_of_corpus",
    "host_table",
    "is_compiled",
    "is_corpus_folder",
    "is_log_remote",
    "kind_rows",
    "kind_table",
    "newcomers_words",
    "next_goal",
    "open_corpus",
    "plan_chart",
    "plan_words",
    "present_config",
    "read_overview_part",
    "reason_text",
    "record_compiled",
    "repair_corpus",
    "repair_from_backup",
    "resize_corpus",
    "restore_corpus",
    "restore_corpus_at",
    "slow_host_table",
    "target_words",
    "text_key",
    "text_timeline",
    "timeline_svg",
    "together_words",
    "useful_budgets",
    "wrong_answer_words",
]

_MODULES = {
    "recrawl.corpus.aio": ("AsyncCorpus",),
    "recrawl.corpus.backups.backup": (
        "BACKUPS_KEPT",
        "BackupCheck",
        "BackupResult",
        "back_up_corpus",
        "check_backups",
    ),
    "recrawl.corpus.backups.restore": ("Restored", "restore_corpus"),
    "recrawl.corpus.backups.restore_at": ("RestoredAt", "restore_corpus_at"),
    "recrawl.corpus.compiling": (
        "COMPILED_ABOUT",
        "COMPILE_TIME_TEXT",
        "compile_all",
        "is_compiled",
        "record_compiled",
    ),
    "recrawl.corpus.corpus": ("Corpus",),
    "recrawl.corpus.doctor": (
        "check_corpus",
        "repair_corpus",
        "repair_from_backup",
    ),
    "recrawl.corpus.doctor.check_results": ("CheckResult", "Severity"),
    "recrawl.corpus.doctor.overview_part": ("OverviewPart", "read_overview_part"),
    "recrawl.corpus.export_rows": ("EXPORT_SCHEMA",),
    "recrawl.corpus.folder_size": (
        "bytes_to_replay",
        "data_bytes",
        "has_parts_of_corpus",
        "is_corpus_folder",
        "is_log_remote",
    ),
    "recrawl.corpus.forgetting.forget": ("Forgotten", "forget_states"),
    "recrawl.corpus.holdout.confidence": ("Difference",),
    "recrawl.corpus.holdout.experiment": ("HoldoutArm", "HoldoutView"),
    "recrawl.corpus.import_crawl": ("CrawlImport", "ImportCounts"),
    "recrawl.corpus.inspect.beliefs": ("BelievedPages",),
    "recrawl.corpus.inspect.explanation": ("PageExplanation",),
    "recrawl.corpus.inspect.hosts": ("newcomers_words",),
    "recrawl.corpus.inspect.page_table": ("PAGE_COLUMNS",),
    "recrawl.corpus.monitoring.metrics": ("CorpusMetrics",),
    "recrawl.corpus.opening": ("open_corpus", "present_config"),
    "recrawl.corpus.past.explanation_rows": ("explanation_of_answer", "explanation_rows"),
    "recrawl.corpus.past.explanation_text": ("explanation_words",),
    "recrawl.corpus.past.page_history": ("PageHistory",),
    "recrawl.corpus.past.page_timeline": ("text_key", "text_timeline", "timeline_svg"),
    "recrawl.corpus.plan.corpus_plan": ("CorpusPlan",),
    "recrawl.corpus.plan.curve": ("KindPlan", "Plan"),
    "recrawl.corpus.plan.hosts": ("HostPlan",),
    "recrawl.corpus.plan.rows": (
        "PlanTable",
        "budget_table",
        "current_budget_row",
        "host_table",
        "kind_rows",
        "kind_table",
        "plan_chart",
        "slow_host_table",
        "useful_budgets",
    ),
    "recrawl.corpus.plan.targets": ("Target", "TargetAnswer"),
    "recrawl.corpus.plan.text": (
        "Amounts",
        "ceiling_words",
        "delay_words",
        "doubt_words",
        "next_goal",
        "plan_words",
        "target_words",
        "together_words",
    ),
    "recrawl.corpus.resize.resizing": ("Resized", "resize_corpus"),
    "recrawl.corpus.wrong_answers": ("wrong_answer_words",),
    "recrawl.messages.enums": ("Transition", "Why"),
    "recrawl.messages.leases": (
        "LeasedUrl",
        "LeasedUrls",
        "Orders",
        "Shortfall",
        "ShortfallReason",
        "reason_text",
    ),
    "recrawl.messages.orders": ("Order", "Outcome"),
    "recrawl.messages.results": ("Added", "CountedRows", "Reported", "RowStatus", "Signalled"),
    "recrawl.messages.samples": (
        "Figures",
        "Histogram",
        "Sample",
        "Samples",
        "SourceFigures",
        "SourceSamples",
    ),
    "recrawl.messages.views": (
        "AuditRow",
        "AuditTable",
        "Consumer",
        "HostTable",
        "HostView",
        "LastChange",
        "PageChange",
        "PageRows",
        "Passage",
        "PassageChanges",
        "SourceRow",
        "SourceTable",
        "Stats",
    ),
    "recrawl.node.clock": ("Clock", "SystemClock"),
    "recrawl.node.config.corpus_config": ("CorpusConfig",),
    "recrawl.node.records": ("FirstRequestKey", "RequestKey"),
    "recrawl.node.settings.pages": ("PageSettings",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import the module that defines a public name, and return the name's value."""
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, so that they can be completed before they are imported."""
    return sorted({*globals(), *__all__})
