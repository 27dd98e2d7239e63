"""Write the stub files, which show type checkers and editors the operations; with ``--check`` only compare."""

from __future__ import annotations

import sys

from tools.stubs.files import SOURCE, stubs

only_check = sys.argv[1:] == ["--check"]
wanted = stubs()
stale = [path for path in SOURCE.rglob("*.pyi") if path not in wanted]
stale += [path for path, text in wanted.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
for path in stale:
    print(path.relative_to(SOURCE.parent))
    if not only_check and path in wanted:
        path.write_text(wanted[path], encoding="utf-8")
    elif not only_check:
        path.unlink()
sys.exit(1 if stale and only_check else 0)
