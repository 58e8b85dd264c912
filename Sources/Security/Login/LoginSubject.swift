/// The one who tries to log in, by the keys under which `LoginThrottle` remembers them.
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

/// How a login stands beside others that wait with it.
struct LoginStanding {
    /// Who has failed less goes first; 0 for a client that has logged in well before. Failures of its network, its site and its user name.
    let rank: UInt32
    /// When its network may have its next password checked, in milliseconds; 0 for at once.
    let mayBeginAt: UInt64
}
