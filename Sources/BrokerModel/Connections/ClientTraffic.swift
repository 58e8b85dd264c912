/// What a connection has carried since it is there.
public struct ClientTraffic: Hashable, Sendable {
    /// PUBLISH packets.
    public package(set) var receivedMessages: UInt64 = 0
    public package(set) var sentMessages: UInt64 = 0
    /// As the transport counts them, without TLS.
    public package(set) var receivedBytes: UInt64 = 0
    public package(set) var sentBytes: UInt64 = 0

    package init() {}
}
