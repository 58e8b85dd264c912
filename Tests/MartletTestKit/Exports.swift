@_exported public import BrokerSimulation
