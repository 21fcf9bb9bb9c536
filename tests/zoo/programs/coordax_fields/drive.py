from fields.analysis import temperature


def weighted_mean(mean):
    return mean(temperature())


def anomalies(anomalies):
    field = temperature()
    parts = anomalies(field)
    return parts, anomalies(parts["deviation"])
