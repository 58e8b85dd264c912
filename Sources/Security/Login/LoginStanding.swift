/// How a login stands beside others that wait with it.
struct LoginStanding {
    /// Who has failed less goes first; 0 for a client that has logged in well before. Failures of its network, its site and its user name.
    let rank: UInt32
    /// When its network may have its next password checked, in milliseconds; 0 for at once.
    let mayBeginAt: UInt64
}
