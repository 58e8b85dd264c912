public import BrokerSimulation
public import MQTTCodec

/// Clients of a simulated broker.
extension SimulatedBroker {
    /// Makes a client that is not connected yet.
    public func client(_ identifier: EncodedString, version: ProtocolVersion = .v5) -> TestClient {
        TestClient(broker: self, identifier: identifier, version: version)
    }

    /// Makes a client and connects it with a clean session.
    @discardableResult
    public func connected(_ identifier: EncodedString, version: ProtocolVersion = .v5) -> TestClient {
        let client = client(identifier, version: version)
        client.connect()
        return client
    }
}
