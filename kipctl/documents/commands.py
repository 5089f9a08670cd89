"""Which document each command prints; a command may have several, by what it was asked for."""

from collections.abc import Mapping

from kipctl.documents import (
    analysis,
    changes,
    cluster,
    conform,
    experiments,
    gain_curve,
    replica_selection,
    runs,
    tap,
)

_CHANGE = (
    changes.PlanDocument,
    changes.RotationsDocument,
    changes.MovedDocument,
    changes.ReassignedDocument,
    changes.StoppedDocument,
    changes.VerifiedDocument,
    changes.DisksDocument,
    changes.OngoingDocument,
    changes.CancelledDocument,
)
_ROLL = (changes.RollPlanDocument, changes.RollDocument)
_THROTTLE = (changes.ThrottleDocument, changes.ThrottlesDocument)

DOCUMENTS: Mapping[str, tuple[type, ...]] = {
    "analyze": (analysis.AnalysisDocument,),
    "analyze request-log": (analysis.RequestLogAnalysis,),
    "changes": (
        changes.HistoryDocument,
        changes.EntryDocument,
        changes.DisksEntryDocument,
        changes.NotPreferredDocument,
        *_CHANGE,
        *_ROLL,
        *_THROTTLE,
    ),
    "clusters": (cluster.ClustersDocument,),
    "clusters test": (cluster.ClusterTestDocument,),
    "conform broker": (conform.ConformDocument,),
    "conform explain": (conform.RuleDocument,),
    "conform list": (conform.ConformListDocument,),
    "conform run": (conform.ConformDocument,),
    "conform serve": (conform.JudgedDocument,),
    "demo": (experiments.DemoDocument,),
    "elect preferred": (
        changes.NotPreferredDocument,
        changes.MovedDocument,
        changes.StoppedDocument,
    ),
    "elect unclean": (
        changes.UncleanDocument,
        changes.MovedDocument,
        changes.StoppedDocument,
    ),
    "experiment batch": (experiments.BatchDocument,),
    "experiment closest-replica": (experiments.ClosestDocument,),
    "experiment metadata": (experiments.ClaimsDocument,),
    "experiment redirect": (gain_curve.RedirectDocument, gain_curve.PredictionDocument),
    "experiment roll": (experiments.RollExperimentDocument,),
    "experiment run": (experiments.OwnDocument,),
    "explain": (analysis.ExplainDocument, analysis.PageDocument),
    "inspect brokers": (cluster.BrokersDocument,),
    "inspect hints": (cluster.HintsDocument,),
    "inspect leaders": (cluster.LeadersDocument,),
    "inspect metadata": (cluster.MetadataViewsDocument,),
    "inspect replica-selection": (
        replica_selection.ReplicaSelectionDocument,
        replica_selection.ReplicaWalksDocument,
        replica_selection.ReplicaFlipsDocument,
    ),
    "lab": (cluster.LabsDocument,),
    "perf consume": (runs.ConsumeDocument,),
    "perf e2e": (runs.EndToEndDocument,),
    "perf metadata": (runs.MetadataDocument,),
    "perf produce": (runs.ProduceDocument,),
    "reassign": (*_CHANGE, *_THROTTLE),
    "report": (analysis.ReportDocument,),
    "request-log": (cluster.RequestLogDocument,),
    "request-log pack": (analysis.PackDocument,),
    "roll": (*_ROLL, *_CHANGE),
    "runs compare": (analysis.ComparisonDocument,),
    "runs export": (analysis.ExportDocument,),
    "runs list": (analysis.RunsDocument,),
    "runs remove": (analysis.RemovedDocument,),
    "runs repair": (
        runs.ProduceDocument,
        runs.ConsumeDocument,
        runs.EndToEndDocument,
        tap.TapDocument,
    ),
    "runs show": (analysis.RunDocument,),
    "spark": (analysis.SparkDocument,),
    "tap": (tap.TapDocument,),
    "throttle": _THROTTLE,
    "undo": (*_CHANGE, *_ROLL),
    "wait": (cluster.WaitDocument,),
}
"""By the command, or by its first words where all that begin with them print the same."""

OPEN = (analysis.RunDocument,)
"""Documents that have more keys: those of `run.json`."""


def documents_of(command: str) -> tuple[type, ...]:
    """What this command (`_command`) may print. Raises KeyError for one that is not declared."""
    words = command.split()
    for end in range(len(words), 0, -1):
        if (named := " ".join(words[:end])) in DOCUMENTS:
            return DOCUMENTS[named]
    raise KeyError(command)
