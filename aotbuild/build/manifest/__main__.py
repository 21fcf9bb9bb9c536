"""Write the JSON schema: ``python -m aotbuild.build.manifest > configs/aotbuild.schema.json``."""

import sys

from aotbuild.build.manifest.schema import schema_text

sys.stdout.write(schema_text())
