public import MQTTCodec

/// What the shell knows of a connection when it accepts it.
public struct ConnectionInfo: Sendable {
    /// The peer's address as the log prints it, such as `127.0.0.1`.
    public var address: String
    /// The peer's port, 0 where there is none.
    public var port: UInt16
    /// Which of `BrokerSettings.listeners` accepted it; below 0 for the broker's own clients, see there.
    public var listener: Int {
        get { Int(listenerNumber) }
        set { listenerNumber = Int32(newValue) }
    }
    private var listenerNumber: Int32
    /// What the layers below have found out; nil for nothing, as with most of many clients, whose connections are to be
    /// small.
    private var proof: Proof?

    /// Never changed once it is made.
    private final class Proof: Sendable {
        package let values: Values

        package struct Values {
            package var certificateCommonName: String?
            package var certificateSubject: String?
            package var preSharedKeyIdentity: String?
            package var encryption: String?
            package var certificateNames = CertificateClaims()
        }

        package init(_ values: Values) { self.values = values }
    }

    private var proven: Proof.Values {
        get { proof?.values ?? Proof.Values() }
        set { proof = Proof(newValue) }
    }

    /// The common name in the client's certificate, verified by the transport or by a proxy that is trusted.
    public var certificateCommonName: String? {
        get { proof?.values.certificateCommonName }
        set { if newValue != certificateCommonName { proven.certificateCommonName = newValue } }
    }
    /// The whole subject of that certificate, as RFC 2253 writes it.
    public var certificateSubject: String? {
        get { proof?.values.certificateSubject }
        set { if newValue != certificateSubject { proven.certificateSubject = newValue } }
    }
    /// The identity of the pre-shared key that the client has shown to know.
    public var preSharedKeyIdentity: String? {
        get { proof?.values.preSharedKeyIdentity }
        set { if newValue != preSharedKeyIdentity { proven.preSharedKeyIdentity = newValue } }
    }
    /// Who the client is by its certificate, where the listener asks for other names of it than the two above.
    public var certificateClaims: CertificateClaims {
        get { proof?.values.certificateNames ?? CertificateClaims() }
        set { if newValue != certificateClaims { proven.certificateNames = newValue } }
    }
    /// What TLS has agreed on, such as `TLSv1.3 cipher TLS_AES_256_GCM_SHA384`; nil without TLS.
    public var encryption: String? {
        get { proof?.values.encryption }
        set { if newValue != encryption { proven.encryption = newValue } }
    }

    public init(address: String, port: UInt16 = 0, listener: Int = 0) {
        self.address = address
        self.port = port
        listenerNumber = Int32(listener)
    }
}

/// Who a client is by the names in its certificate that the listener asks for.
public struct CertificateClaims: Sendable, Equatable {
    /// `martlet_certificate_group`, `martlet_certificate_role`
    public var memberships = AccessMemberships()
    /// `martlet_certificate_attribute`
    public var attributes: [ClientAttribute] = []
    /// `martlet_certificate_username`
    public var userName: String?
    /// `martlet_certificate_clientid`
    public var clientIdentifier: String?
    /// Why one of them is not there though it is asked for, as a part of a sentence; nil where nothing is missing.
    public var objection: String?

    public init() {}
}

/// The groups and roles of dynamic security that somebody has beside those that it keeps of the user.
public struct AccessMemberships: Sendable, Equatable {
    public var groups: [EncodedString]
    public var roles: [EncodedString]

    public init(groups: [EncodedString] = [], roles: [EncodedString] = []) { (self.groups, self.roles) = (groups, roles) }

    public var isEmpty: Bool { groups.isEmpty && roles.isEmpty }
}

/// Something that is known of a client, for rules.
public struct ClientAttribute: Sendable, Equatable {
    public let name: String
    public let value: String

    public init(name: String, value: String) { (self.name, self.value) = (name, value) }
}

/// Names a connection of a shard to the shell: the slot in the shard's table, and which tenant of that slot is meant.
public struct ConnectionID: Hashable, Sendable {
    public let slot: UInt32
    public let generation: UInt32

    public init(slot: UInt32, generation: UInt32) {
        self.slot = slot
        self.generation = generation
    }
}

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
