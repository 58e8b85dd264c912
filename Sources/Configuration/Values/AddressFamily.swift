/// A family of network addresses.
public enum AddressFamily: String, Sendable, Equatable, CaseIterable {
    case ipv4
    case ipv6
}
