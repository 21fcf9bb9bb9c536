import json

x = 1
json.loads("{")  # @json
