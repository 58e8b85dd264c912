/// The bounds of a bridge that no option sets.
enum Limits {
    /// Bytes of this broker's that are under way to the other one: in the bridge, and not taken by the connection.
    static let underwayBytesMax = 1 << 20

    /// Milliseconds that the return of a message is awaited.
    static let echoMillisecondsMax: UInt64 = 30_000

    /// How many Topic Aliases a bridge sets, of those that the other broker allows.
    static let sentAliasesMax = 256

    /// How long a connection has to last to be one, in milliseconds: one that is lost sooner is an attempt that has
    /// failed.
    static let stableMilliseconds: UInt64 = 10_000

    /// How often a bridge that is connected to another than its first address looks for that, in milliseconds.
    static let probeMilliseconds: UInt64 = 5000
}
