import coordax as cx
from fields.analysis import latitude, longitude, temperature, time


def weighted_mean(mean):
    return mean(temperature())


def anomalies(anomalies):
    field = temperature()
    parts = anomalies(field)
    return parts, anomalies(cx.wrap(parts["deviation"], time, latitude, longitude))
