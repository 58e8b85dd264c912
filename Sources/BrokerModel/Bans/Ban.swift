public import MQTTCodec

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

/// Whose connections as a client a ban is for: what somebody does with a Client Identifier that is not theirs must not keep out whom it
/// belongs to.
public struct BanScope: Hashable, Sendable {
    /// Nil for those without a user name.
    public let user: EncodedString?
    /// As `party(of:)`.
    public let party: String

    public init(user: EncodedString?, party: String) { (self.user, self.party) = (user, party) }

    /// Who stands behind an address: all of a network of 64 bits in IPv6; what is no address, such as a Unix socket's path, is itself.
    public static func party(of address: String) -> String { AddressRange.ofParty(address) ?? address }
}

/// An option by which the broker bans by itself; bans name it as the one who made them.
public enum BanOption: String, Sendable {
    case failedLogins = "martlet_ban_after"
    case flapping = "martlet_flapping"
}

/// Whom a ban is for, written in one way alone: `192.0.2.7/24` and `192.0.2.0/24` are the same network.
public struct BanTarget: Hashable, Sendable {
    public let kind: BanKind
    public let who: String
    /// Of an address or a network.
    package let range: AddressRange?
    /// A Client Identifier or a user name.
    package let name: EncodedString?
    /// Of a client: for whom alone; nil for everybody who comes with its name.
    public let scope: BanScope?

    /// Nil for a text that is no name, address or network, and for a network of all addresses: nobody would be left.
    public init?(_ kind: BanKind, _ who: String) {
        self.kind = kind
        scope = nil
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

    /// A client as somebody uses it from somewhere, and nobody else with its name.
    public init(client: EncodedString, _ scope: BanScope) {
        (kind, who, range, name, self.scope) = (.client, "\(client)", nil, client, scope)
    }

    /// What tells it from all others, as one text; in the order of lists.
    public var place: String {
        // Neither a kind has a space in it nor a name U+0000.
        "\(kind.rawValue) \(who)" + (scope.map { "\0\($0.party)\0" + ($0.user.map { "\($0)\0" } ?? "") } ?? "")
    }

    /// The bytes of memory that its texts take.
    package var textBytes: Int {
        who.utf8.count + (name?.count ?? 0) + (scope.map { $0.party.utf8.count + ($0.user?.count ?? 0) } ?? 0)
    }
}

/// Somebody is not let in, and not left in, until a time or for ever.
public struct Ban: Hashable, Sendable {
    public let target: BanTarget
    /// The maker of the ban: an administrator, or the option by which the broker made it.
    public var by: String
    public var reason: String
    /// When it was made, in milliseconds since 1970.
    public var at: UInt64
    /// When it ends, in milliseconds since 1970; nil for never.
    public var until: UInt64?

    public init(_ target: BanTarget, by: String, reason: String, at: UInt64, until: UInt64?) {
        (self.target, self.by, self.reason, self.at, self.until) = (target, by, reason, at, until)
    }

    /// The option by which the broker has made it by itself; nil for an administrator's.
    public var option: BanOption? { BanOption(rawValue: by) }

    /// The bytes of memory that it takes, in all lists together.
    package var heldBytes: Int { 512 + target.textBytes + by.utf8.count + reason.utf8.count }
}
