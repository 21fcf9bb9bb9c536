"""Write aot.ci.yaml: aot.yaml with the one target that a job of CI builds.

python ci/one_target.py 'cpu: {isa: x86-64-v3}'
"""

import sys
from pathlib import Path

import yaml

manifest = yaml.safe_load(Path("aot.yaml").read_text(encoding="utf-8"))
manifest["targets"] = [yaml.safe_load(sys.argv[1])]
text = yaml.safe_dump(manifest, sort_keys=False)
Path("aot.ci.yaml").write_text(text, encoding="utf-8")
