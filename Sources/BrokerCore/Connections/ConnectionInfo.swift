/// What the shell knows of a connection when it accepts it.
public struct ConnectionInfo: Sendable {
    /// The peer's address as the log prints it, such as `127.0.0.1`.
    public var address: String
    /// The peer's port, 0 where there is none.
    public var port: UInt16
    /// Which of `BrokerSettings.listeners` accepted it.
    public var listener: Int
    /// The common name in the client's certificate, verified by the transport or by a proxy that is trusted.
    public var certificateCommonName: String?
    /// The whole subject of that certificate, as RFC 2253 writes it.
    public var certificateSubject: String?
    /// The identity of the pre-shared key that the client has shown to know.
    public var preSharedKeyIdentity: String?
    /// What TLS has agreed on, such as `TLSv1.3 cipher TLS_AES_256_GCM_SHA384`; nil without TLS.
    public var encryption: String?

    public init(address: String, port: UInt16 = 0, listener: Int = 0) {
        self.address = address
        self.port = port
        self.listener = listener
    }
}
