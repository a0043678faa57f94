"""Build the table of due times that the wheel contains; run it after the mathematics change.

python scripts/due_table.py           # writes src/recrawl/node/due_table.npz
"""

from pathlib import Path

from recrawl.core.price.learning_rows import learning_rows_for
from recrawl.node.shipped_due_table import pack_due_table
from recrawl.shard.shard import default_due_table
from recrawl.shard.state.rules import LEARNING_HORIZONS

FILE = Path(__file__).parents[1] / "src" / "recrawl" / "node" / "due_table.npz"

if __name__ == "__main__":
    table = default_due_table()
    learning_rows = {horizon: learning_rows_for(table, horizon) for horizon in LEARNING_HORIZONS}
    FILE.write_bytes(pack_due_table(table, learning_rows))
    print(f"{FILE}: {FILE.stat().st_size / 1e6:.2f} MB")
