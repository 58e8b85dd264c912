/// The bounds of a bridge that no option sets.
enum Limits {
    /// Bytes of this broker's that are under way to the other one: in the bridge, and not taken by the connection.
    static let underwayBytesMax = 1 << 20

    /// Bytes for the other broker that wait; beyond them nothing is read from it, so that one that does not read costs no more.
    static let farOutputBytesMax = 4 << 20

    /// Bytes of an emptied buffer that are kept.
    static let keptBufferBytesMax = 256 << 10

    /// Milliseconds from the beginning of an attempt to CONNACK.
    static let connectMillisecondsMax: UInt64 = 30_000

    /// Milliseconds from CONNACK until both sides have answered all that a bridge begins with.
    static let joinMillisecondsMax: UInt64 = 30_000

    /// Messages whose return is awaited from a broker that knows no bridges; the oldest is forgotten for the next.
    static let echoesMax = 16_384

    /// Milliseconds that the return of a message is awaited.
    static let echoMillisecondsMax: UInt64 = 30_000

    /// How often a bridge that is connected to another than its first address looks for that, in milliseconds.
    static let probeMilliseconds: UInt64 = 5000
}
