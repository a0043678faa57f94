"""Build the table of due times that comes with the package; run it when the mathematics change.

python scripts/due_table.py           # writes src/recrawl/node/due_table.npz
"""

from pathlib import Path

from recrawl.core.price.teaching_rows import rows_of
from recrawl.node.shipped_due_table import packed
from recrawl.shard.shard import built_due_table
from recrawl.shard.state.rules import PATIENCES

FILE = Path(__file__).parents[1] / "src" / "recrawl" / "node" / "due_table.npz"

if __name__ == "__main__":
    table = built_due_table()
    taught = {patience: rows_of(table, patience) for patience in PATIENCES}
    FILE.write_bytes(packed(table, taught))
    print(f"{FILE}: {FILE.stat().st_size / 1e6:.2f} MB")
