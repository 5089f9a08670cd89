"""`python -m kipctl.generate`, in the repository's folder: write the files, drop stale ones.

The keys and columns in docs/pipeline.md are written too, and what commands print as JSON.
"""

from pathlib import Path

from kipctl.documents import schema
from kipctl.generate import generated_files
from kipctl.pipeline.table_docs import DOCS, written_into
from kipctl.pipeline.tables import TABLES

if __name__ == "__main__":
    files = generated_files()
    for folder in ("man", "completions"):
        Path(folder).mkdir(exist_ok=True)
        for old in Path(folder).iterdir():
            if old.as_posix() not in files:
                old.unlink()
    for path, text in files.items():
        Path(path).write_text(text)
    page = Path(DOCS)
    page.write_text(written_into(page.read_text(), TABLES))
    Path(schema.PAGE).write_text(schema.page())
    Path(schema.FILE).write_text(schema.text(schema.schema()))
