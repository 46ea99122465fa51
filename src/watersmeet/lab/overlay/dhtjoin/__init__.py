"""DHTJoin: joins by disseminated queries (Palma, Akbarinia, Pacitti and Valduriez, Euro-Par 2008)."""

from watersmeet.lab.overlay.dhtjoin.alerts import DetectionPolicy
from watersmeet.lab.overlay.dhtjoin.lane_window import Shedding
from watersmeet.lab.overlay.dhtjoin.network import DhtJoinNetwork, QueryArrival, TupleArrival, start_dhtjoin
from watersmeet.lab.overlay.dhtjoin.protocol import DhtJoin, Settings

__all__ = [
    "DetectionPolicy",
    "DhtJoin",
    "DhtJoinNetwork",
    "QueryArrival",
    "Settings",
    "Shedding",
    "TupleArrival",
    "start_dhtjoin",
]
