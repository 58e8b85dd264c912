/// The bounds of what strangers send as tokens and what servers answer as keys, each with its unit and what happens
/// beyond it.
enum Limits {
    /// Bytes of a token, unless the operator says otherwise: a longer one is refused before it is looked at.
    static let tokenBytesMax = 16 * 1024

    /// Bytes of a key set, as a file or an answer: a longer one is not read.
    static let keySetBytesMax = 1 << 20

    /// Keys of a set that are used; what follows is passed over, with a remark. Bytes: 2,000 each.
    static let keysMax = 256

    /// Keys that a token without a name for its key is tried with; where more would fit it is refused: each costs a
    /// check. Bytes: 8 each.
    static let candidatesMax = 16

    /// Remarks on keys that were passed over; more are not kept. Bytes: 400 each.
    static let remarksMax = 16

    /// Bits of a key of RSA: a smaller one can be broken, and is refused. [RFC 7518, section 3.3]
    static let rsaBitsMin = 2048

    /// Bits of a key of RSA; a check takes the longer the more there are, and a greater key is refused. Bytes: 1
    /// for 8.
    static let rsaBitsMax = 8192

    /// Bytes of an HMAC's secret: a shorter one is refused. [RFC 7518, section 3.2]
    static let secretBytesMin = 32

    /// Rules of an `acl`: a token or an answer with more is refused. Bytes: `tokenBytesMax`, or an answer's.
    static let accessRulesMax = 1024

    /// Characters of a stranger's text in a line of the log; a longer one is cut. Bytes: 4 each.
    static let shownTextMax = 64
}
