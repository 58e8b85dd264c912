/// Who tries to log in, by the keys under which `LoginThrottle` remembers them.
public struct LoginSubject: Sendable {
    /// What one host cannot choose freely of its address.
    let network: UInt64
    /// The larger network around it, which may well be one attacker's.
    let site: UInt64
    let clientIdentifier: UInt64
    /// nil where it is not known yet.
    let userName: UInt64?
    /// All of them together, without the site: a client that comes again.
    let acquaintance: UInt64?
}
