/// The bounds of a bridge that no option sets.
enum Limits {
    /// Bytes of this broker's that are under way to the other one: in the bridge, and not taken by the connection.
    static let underwayBytesMax = 1 << 20

    /// The most bytes of a PUBLISH's body up to its properties: a topic with its length, and a packet identifier.
    static let publishBeginningBytesMax = 2 + 65_535 + 2

    /// Bytes for the other broker that wait; beyond them nothing is read from it, so that one that does not read costs no more.
    static let farOutputBytesMax = 4 << 20

    /// Bytes of an emptied buffer that are kept.
    static let keptBufferBytesMax = 256 << 10

    /// Milliseconds from the beginning of an attempt to CONNACK.
    static let connectMillisecondsMax: UInt64 = 30_000

    /// Milliseconds from CONNACK until both sides have answered all that a bridge begins with.
    static let joinMillisecondsMax: UInt64 = 30_000

    /// Messages whose return is awaited from a broker that knows no bridges; the oldest is forgotten for the next.
    /// Bytes: 48 each, messages are hashed.
    static let echoesMax = 16_384

    /// Milliseconds that the return of a message is awaited.
    static let echoMillisecondsMax: UInt64 = 30_000

    /// How many Topic Aliases a bridge sets, of those that the other broker allows.
    static let sentAliasesMax = 256

    /// How often a message may say that it came into a broker or left one, two for each, on its way over bridges that lead back.
    /// Bytes: `max_packet_size`, it is a property of a message.
    static let pathStationsMax = 64

    /// How long a connection has to last to be one, in milliseconds: one that is lost sooner is an attempt that has failed.
    static let stableMilliseconds: UInt64 = 10_000

    /// How long a lazy bridge waits after an attempt that has failed, or a connection that was lost soon, in milliseconds; each time in a row
    /// twice as long, at most as long as a bridge that always connects.
    static let lazyPauseMilliseconds: UInt64 = 1000

    /// How long a connection lasts after which the log tells again that the other broker has no room, in milliseconds.
    static let toldMilliseconds: UInt64 = 300_000

    /// The longest that a bridge stays with another than its first address before it looks for that, in milliseconds, if that one answers
    /// and does not last.
    static let awayMillisecondsMax: UInt64 = 300_000

    /// How often a bridge that is connected to another than its first address looks for that, in milliseconds.
    static let probeMilliseconds: UInt64 = 5000
}
