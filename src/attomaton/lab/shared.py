"""What all pages of a lab share; nothing of it needs the browser's library, so it is there before that is read."""

from pathlib import Path
from threading import Lock

from attomaton.disk.storage import is_folder
from attomaton.errors import UsageError
from attomaton.jobs.fit import fit_run
from attomaton.lab.jobs import Job, Jobs
from attomaton.lab.opened import Opened
from attomaton.lab.shelf import EXAMPLE, Item, Shelf, named


class Lab:
    """The shelf, the jobs and the opened models of one lab."""

    def __init__(self, workspace: Path, allow_run: bool = True):
        self.shelf, self.jobs, self.allow_run = Shelf(workspace), Jobs(), allow_run
        self.first = EXAMPLE  # the item shown when an address names none
        self.comes_back = ""  # the script by which an open page finds a lab that was started again
        self._opened: dict[Path, Opened] = {}
        self._lock = Lock()

    def fitted(self, item: Item) -> Opened | None:
        """The model of an item, if there is one already."""
        folder = self.shelf.model_folder(item)
        if not is_folder(folder, "model"):
            return None
        with self._lock:
            if folder not in self._opened or self._opened[folder].model.files.replaced:
                self._opened[folder] = Opened(folder)
            return self._opened[folder]

    def fit(self, item: Item) -> Job:
        """Fit a data item, as `attomaton fit` does, into its place in the workspace."""
        folder = self.shelf.model_folder(item)

        def work(job: Job) -> object:
            how = {"reading": item.reading, "force": True}
            return named(item, fit_run, item.path, folder, progress=job.progress, **how)

        return self.jobs.start(self.fit_key(item), f"Fitting {item.title}", work)

    def may_start(self) -> None:
        """Refuse work where others can reach the lab and nobody allowed it."""
        if not self.allow_run:
            raise UsageError("this lab is read only; start it with --allow-run.")

    @staticmethod
    def fit_key(item: Item) -> str:
        """What the job of fitting an item is called."""
        return f"fit {item.id}"


def workspace_folder(folder: Path | None) -> Path:
    """Where the lab keeps its data and runs."""
    folder = Path("runs/lab") if folder is None else folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: cannot write there ({error.strerror}).") from error
    return folder
