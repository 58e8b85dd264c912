/// By which claim of another node each session was given up here, with its wills settled; all are forgotten for the next one when there are too
/// many.
///
/// Invariant: at most `Limits.sessionDropsMax`, whose names have `Limits.sessionNameBytesMax`. Belongs to a
/// `SessionCoordinator`.
struct SettledClaims {
    private var epochs: [[UInt8]: UInt64] = [:]
    private var byteCount = 0

    subscript(session: [UInt8]) -> UInt64? { epochs[session] }

    mutating func insert(_ session: [UInt8], _ epoch: UInt64) {
        if epochs[session] == nil {
            if epochs.count >= Limits.sessionDropsMax || byteCount + session.count > Limits.sessionNameBytesMax {
                (epochs, byteCount) = ([:], 0)
            }
            byteCount += session.count
        }
        epochs[session] = epoch
    }
}
