"""Where things are in the cluster's own network; every cluster has the same addresses, in a network of its own."""

from __future__ import annotations

NODE = "10.244.0.1"
"""The bridge: node, kubelet, DNS, and the way out of every pod."""

PODS = "10.244.0.0/16"
FIRST_POD = "10.244.0.10"

SERVICES = "10.96.0.0/16"
API_SERVICE = "10.96.0.1"
"""The service `kubernetes`: its address stands on the node itself, so that pods reach the API server."""

API_PORT = 443
API = f"https://{NODE}:{API_PORT}"
KUBELET_PORT = 10250
ETCD = "http://127.0.0.1:2379"
ETCD_PEERS = "http://127.0.0.1:2380"
WEBHOOKS_PORT = 8443
WEBHOOKS = f"https://127.0.0.1:{WEBHOOKS_PORT}"
