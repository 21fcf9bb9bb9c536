"""Stands for an installed library, whose objects keep traced values."""

__file__ = "site-packages/installed.py"


TABLES = {}


def table(x):
    return TABLES.setdefault(x.shape, x * 2)


class Guide:
    """Keeps what it was set up with the first time: a cache."""

    def __init__(self):
        self.table = None
        self.sizes = {}

    def start(self, x):
        if self.table is None:
            self.table = [x * 2, {"scale": x.sum()}]  # @guided
            self.sizes[len(self.sizes)] = x.shape
        return self.table[0] + self.table[1]["scale"]


class Average:
    """Keeps the average of what it was given: a state."""

    def __init__(self):
        self.value = None

    def update(self, x):
        self.value = x if self.value is None else (self.value + x) / 2
        return self.value
