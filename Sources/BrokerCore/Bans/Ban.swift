import MQTTCodec

/// What a ban is for, as administrators call it.
public enum BanKind: String, CaseIterable, Sendable {
    /// A Client Identifier.
    case client = "clientid"
    case user = "username"
    /// An address.
    case address = "peerhost"
    /// Addresses that begin alike, such as `192.0.2.0/24`.
    case network = "peerhost_net"
}

/// Whom a ban is for, written in one way alone: `192.0.2.7/24` and `192.0.2.0/24` are the same network.
public struct BanTarget: Hashable, Sendable {
    public let kind: BanKind
    public let who: String
    /// Of an address or a network.
    let range: AddressRange?
    /// A Client Identifier or a user name.
    let name: EncodedString?

    /// Nil for a text that is no name, address or network, and for a network of all addresses: nobody would be left.
    public init?(_ kind: BanKind, _ who: String) {
        self.kind = kind
        switch kind {
        case .client, .user:
            guard !who.isEmpty, let name = EncodedString(who) else { return nil }
            (self.who, self.name, range) = (who, name, nil)
        case .address:
            guard let range = AddressRange(who), range.isAddress, !who.utf8.contains(UInt8(ascii: "/")) else { return nil }
            (self.who, self.range, name) = ("\(range)", range, nil)
        case .network:
            guard who.utf8.contains(UInt8(ascii: "/")), let range = AddressRange(who), range.bits > 0, !range.isAllOfVersion4 else {
                return nil
            }
            let network = range.prefix(range.bits)
            (self.who, self.range, name) = (network.networkText, network, nil)
        }
    }
}

/// Somebody is not let in, and not left in, until a time or for ever.
public struct Ban: Hashable, Sendable {
    public let target: BanTarget
    /// Who has made it: an administrator, or the option by which the broker did.
    public var by: String
    public var reason: String
    /// When it was made, in milliseconds since 1970.
    public var at: UInt64
    /// When it ends, in milliseconds since 1970; nil for never.
    public var until: UInt64?

    public init(_ target: BanTarget, by: String, reason: String, at: UInt64, until: UInt64?) {
        (self.target, self.by, self.reason, self.at, self.until) = (target, by, reason, at, until)
    }
}
