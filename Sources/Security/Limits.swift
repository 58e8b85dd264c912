/// The bounds of passwords, logins and their files that no option sets, in one place: each with its unit and what happens beyond it.
enum Limits {
    // Logins.

    /// Failed logins of a network that cost nothing: people mistype.
    static let failuresFree: UInt32 = 3

    /// Failures that are counted for a network; more cost no longer a delay.
    static let failuresMax: UInt32 = 64

    /// The longest that an answer to a failed login is held back, in milliseconds.
    static let delayMillisecondsMax: UInt64 = 8_000

    /// After how many milliseconds half of a network's failures are forgotten.
    static let forgivenessMilliseconds: UInt64 = 60_000

    /// The longest that a network that keeps failing waits from one check of a password to the next, in milliseconds: a client that comes from
    /// there for the first time waits with it.
    static let spacingMillisecondsMax: UInt64 = 500

    /// Which part of the logins that wait for a check one network may have, as a divisor; of more, the one with the most failures is told that
    /// the broker is busy.
    static let pendingLoginsPerNetworkDivisor = 2

    /// Networks are remembered in sets; a network that finds its set full takes the place of the one seen longest ago.
    static let throttledSets = 2048

    /// Networks in one set.
    static let throttledNetworksPerSet = 4

    /// Bytes of a client's SCRAM message: a user name of the greatest length, escaped, and a nonce are far below. A longer one is refused.
    static let scramMessageBytesMax = 256 * 1024

    // Files.

    /// Bytes of a file; a larger one is an error.
    static let fileBytesMax = 64 << 20

    /// Bytes of a line: a name of 65,535 bytes, and a hash. A longer one is an error.
    static let lineBytesMax = 80_000

    /// Problems of a file that are told; the others are not. Bytes: `lineBytesMax` each at most.
    static let problemsMax = 50

    /// Bytes of a pre-shared key: what OpenSSL takes at most.
    static let preSharedKeyBytesMax = 512

    /// Iterations that a line of a password file may ask for: about ten seconds of a core. More are an error.
    static let iterationsMax = 10_000_000
}
